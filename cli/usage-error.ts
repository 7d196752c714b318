import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** The command line is wrong. @param help how to ask for help about it: `gatehouse keys --help`. */
export class UsageError extends CliError {
  constructor(message: string, help = "gatehouse --help") {
    super(`${message}\nTry: ${help}`, { exitCode: EXIT.usage, code: "usage" });
  }
}
