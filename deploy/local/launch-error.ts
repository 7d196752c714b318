import { causeOfUnavailable } from "#kit/database/database-failure.ts";

/** The user can fix the cause, so no stack is printed. Exit codes 64 (usage) and 78 (configuration) are of sysexits.h. */
export class LaunchError extends Error {
  override readonly name = "LaunchError";
  readonly exitCode: 1 | 64 | 78;

  constructor(message: string, options: { exitCode?: 1 | 64 | 78; cause?: unknown } = {}) {
    super(message, { cause: options.cause });
    this.exitCode = options.exitCode ?? 1;
  }
}

/** `ENOENT`, or the SQLSTATE. */
export function errorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

export function errorText(error: unknown): string {
  const cause = causeOfUnavailable(error) ?? error;
  return cause instanceof Error ? cause.message : String(cause);
}
