import { causeOfUnavailable } from "../../service-kit/database-failure.ts";

/**
 * A reason not to start (or to go on) which the person at the terminal can act on: shown as it is, without a stack.
 * Exit codes: 1 something in the way, 64 wrong usage, 78 wrong configuration (sysexits.h).
 */
export class LaunchError extends Error {
  override readonly name = "LaunchError";
  readonly exitCode: 1 | 64 | 78;

  constructor(message: string, options: { exitCode?: 1 | 64 | 78; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.exitCode = options.exitCode ?? 1;
  }
}

/** Node's error code (`ENOENT`, …) or PostgreSQL's SQLSTATE of a thrown value, if it has one. */
export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** What a thrown value says about itself, in words. */
export function errorText(error: unknown): string {
  const cause = causeOfUnavailable(error) ?? error;
  return cause instanceof Error ? cause.message : String(cause);
}
