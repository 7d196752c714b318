import { readFile } from "node:fs/promises";
import { parseRoutesFile } from "../../routes-file/routes-file.ts";
import { ConfigError } from "../../service-kit/config.ts";
import { CliError } from "../cli-error.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-code.ts";
import { table } from "./table.ts";

export const routesCheck: Command = {
  name: "routes check",
  summary: "Check a routes file as the gateway would, without calling anything",
  positionals: ["file"],
  options: {},
  async run({ positionals: [file = ""] }) {
    const routes = parse(await read(file));
    const rows = routes.map(({ prefix, upstreams, methods }) => [
      prefix,
      Object.keys(methods).join(" "),
      upstreams.join(" "),
    ]);
    const text =
      rows.length === 0
        ? "No routes: nothing is forwarded."
        : table(["PREFIX", "METHODS", "UPSTREAMS"], rows);
    return { text, json: { routes } };
  },
};

async function read(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    const reason = (cause as NodeJS.ErrnoException).code ?? "unreadable";
    throw new CliError(`${file} cannot be read (${reason})`, {
      exitCode: EXIT.config,
      code: "file_unreadable",
      cause,
    });
  }
}

function parse(text: string) {
  try {
    return parseRoutesFile(text);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new CliError(error.message, { exitCode: EXIT.config, code: "routes_invalid", cause: error });
  }
}
