import type { ExitCode } from "./exit-code.ts";

export interface CliErrorOptions {
  exitCode: ExitCode;
  /** Stable: of the error catalogue, or `usage`, `configuration`, …. */
  code: string;
  requestId?: string;
  cause?: unknown;
}

/** An expected failure. Any other error is a bug. */
export class CliError extends Error {
  override readonly name = "CliError";
  readonly exitCode: ExitCode;
  readonly code: string;
  readonly requestId: string | undefined;

  constructor(message: string, { exitCode, code, requestId, cause }: CliErrorOptions) {
    super(message, cause === undefined ? undefined : { cause });
    this.exitCode = exitCode;
    this.code = code;
    this.requestId = requestId;
  }
}
