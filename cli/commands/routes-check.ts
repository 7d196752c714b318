import { parseRoutesFile } from "../../routes-file/routes-file.ts";
import type { Command } from "../command.ts";
import { readConfigFile } from "./read-config-file.ts";
import { table } from "./table.ts";

export const routesCheck: Command = {
  name: "routes check",
  summary: "Check a routes file as the gateway would, without calling anything",
  positionals: ["file"],
  options: {},
  async run({ positionals: [file = ""] }) {
    const routes = await readConfigFile(file, parseRoutesFile, "routes_invalid");
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
