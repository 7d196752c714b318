import type { ExitCode } from "./exit-code.ts";

export interface CliErrorOptions {
  exitCode: ExitCode;
  /** Stable, lower_snake_case, for `--json`: of the catalogue, or `usage`, `configuration`. */
  code: string;
  /** Finds the call in the services' logs. */
  requestId?: string;
  cause?: unknown;
}

/** A failure to tell the operator. Anything else thrown is a bug of ours. */
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
