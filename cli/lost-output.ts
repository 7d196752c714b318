import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** The reader closed the output, as `| head` does. */
export class OutputClosedError extends Error {
  override readonly name = "OutputClosedError";
}

/** What a failed write to standard output means: only a reader that has left is no failure. */
export function lostOutput(cause: NodeJS.ErrnoException): OutputClosedError | CliError {
  if (cause.code === "EPIPE" || cause.code === "ECONNRESET") return new OutputClosedError("", { cause });
  return new CliError(`Standard output cannot be written: ${cause.message}`, {
    exitCode: EXIT.output,
    code: "output",
    cause,
  });
}
