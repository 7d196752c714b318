import { readFile } from "node:fs/promises";
import { ConfigError } from "#kit/config/config.ts";
import { CliError } from "../../cli-error.ts";
import { EXIT } from "../../exit-code.ts";

/** @throws {CliError} `file_unreadable`, or `code` with every problem of the file. */
export async function readConfigFile<T>(file: string, parse: (text: string) => T, code: string): Promise<T> {
  const text = await readFile(file, "utf8").catch((cause: NodeJS.ErrnoException) => {
    const reason = cause.code ?? "unreadable";
    const message = `${file} cannot be read (${reason})`;
    throw new CliError(message, { exitCode: EXIT.config, code: "file_unreadable", cause });
  });
  try {
    return parse(text);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new CliError(error.message, { exitCode: EXIT.config, code, cause: error });
  }
}
