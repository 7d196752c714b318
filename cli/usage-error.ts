import { CliError } from "./cli-error.ts";
import { EXIT } from "./exit-code.ts";

/** @param help Such as `gatehouse keys --help`. */
export class UsageError extends CliError {
  constructor(message: string, help = "gatehouse --help") {
    super(`${message}\nTry: ${help}`, { exitCode: EXIT.usage, code: "usage" });
  }
}
