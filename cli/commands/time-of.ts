import { UsageError } from "../usage-error.ts";

const RFC_3339 = /^(\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** @throws {UsageError} */
export function timeOf(values: ReadonlyMap<string, string>, option: string): Date | undefined {
  const given = values.get(option);
  if (given === undefined) return undefined;
  const time = readTime(given);
  if (time === undefined) throw new UsageError(`--${option} must be an RFC 3339 time: 2026-11-21T09:30:00Z`);
  return time;
}

/** RFC 3339 has a time zone, so that the result is the same on every machine. Undefined: not in this form, or no day of a calendar. */
export function readTime(text: string): Date | undefined {
  const [, day = ""] = RFC_3339.exec(text) ?? [];
  const time = new Date(text);
  if (day === "" || Number.isNaN(time.getTime())) return undefined;
  // JavaScript reads 30 February as 2 March.
  return new Date(day).toISOString().startsWith(day) ? time : undefined;
}
