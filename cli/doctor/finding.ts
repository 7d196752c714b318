import { withinDeadline } from "#kit/values/call-deadline.ts";

export type Area =
  | "configuration"
  | "certificate"
  | "port"
  | "version"
  | "clock"
  | "permission"
  | "database"
  | "redis";

/** What became of one check. */
export interface Finding {
  area: Area;
  /** What was looked at: `token-service`, a file. */
  subject: string;
  result: "ok" | "warning" | "failed";
  /** False: it could not be looked at, and `found` says why. */
  isChecked: boolean;
  found: string;
  /** What to do. Empty if nothing is to be done. */
  action: string;
}

/** Longer than the time limits of a check's own steps. */
const CHECK_TIMEOUT_MS = 15_000;

export function ok(area: Area, subject: string, found: string): Finding {
  return { area, subject, result: "ok", isChecked: true, found, action: "" };
}

export function warning(area: Area, subject: string, found: string, action: string): Finding {
  return { area, subject, result: "warning", isChecked: true, found, action };
}

export function failed(area: Area, subject: string, found: string, action: string): Finding {
  return { area, subject, result: "failed", isChecked: true, found, action };
}

export function unchecked(area: Area, subject: string, why: string, action = ""): Finding {
  return { area, subject, result: "warning", isChecked: false, found: `not checked: ${why}`, action };
}

/** One that fails by itself, or takes too long, hides no other. */
export async function checking(
  area: Area,
  subject: string,
  work: () => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  try {
    return await withinDeadline(work(), CHECK_TIMEOUT_MS);
  } catch (error) {
    return [unchecked(area, subject, reasonOf(error))];
  }
}

/** Fits in one line. */
export function reasonOf(error: unknown): string {
  const { code, message, errors } = error as NodeJS.ErrnoException & { errors?: unknown[] };
  // Of a host with several addresses.
  if (errors?.[0] !== undefined) return reasonOf(errors[0]);
  const line = (message ?? String(error)).split("\n")[0]?.replace(/[\s.:]+$/, "") ?? "";
  const isNamed = typeof code !== "string" || !/^[A-Z_]+$/.test(code) || line.includes(code);
  return isNamed ? line : `${code}: ${line}`;
}
