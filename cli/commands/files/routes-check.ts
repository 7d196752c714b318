import { parseRoutesFile, type UpstreamRoute } from "#routes-file/routes-file.ts";
import { unknownNames } from "#routes-file/unknown-names.ts";
import type { Command } from "../../command.ts";
import { table } from "../table.ts";
import { ACCESS_OPTION, gatewayFile, readAccess } from "./gateway-files.ts";
import { readConfigFile } from "./read-config-file.ts";

export const routesCheck: Command = {
  name: "routes check",
  summary: "Check a routes file as the gateway would, without calling anything",
  details: "Without <file>, as `routes list`: the file of the local Gatehouse's home.",
  positionals: [],
  optionalPositionals: ["file"],
  options: {
    access: ACCESS_OPTION,
    host: {
      type: "string",
      value: "host",
      multiple: true,
      description: "Host of the gateway (ALLOWED_HOSTS), of which no upstream may get a token; repeatable",
    },
  },
  async run(input, backend) {
    const file = input.positionals[0] ?? gatewayFile("routes", input, backend);
    const hosts = (input.lists.get("host") ?? []).map((host) => host.toLowerCase());
    const routes = await readConfigFile(file, (text) => parseRoutesFile(text, hosts), "routes_invalid");
    const { rules, accessFile, source } = await readAccess(input, backend);
    const warnings = unknownNames(routes, rules);
    const warned = warnings.map((line) => `Warning: ${line}\n`).join("");
    return {
      text: `${routesTable(routes)}\n\n${warned}By ${file} and ${source}.`,
      json: { file, routes, warnings, accessFile },
    };
  },
};

export function routesTable(routes: readonly UpstreamRoute[]): string {
  if (routes.length === 0) return "No routes: nothing is forwarded.";
  const rows = routes.map(({ prefix, upstreams, methods, audience, passToken }) => [
    prefix,
    Object.keys(methods).join(" "),
    upstreams.join(" "),
    passToken ? (audience ?? "as it came") : "none",
  ]);
  return table(["PREFIX", "METHODS", "UPSTREAMS", "TOKEN"], rows);
}
