import { parseRoutesFile, type UpstreamRoute } from "#routes-file/routes-file.ts";
import { unknownNames } from "#routes-file/unknown-names.ts";
import type { Command } from "../../command.ts";
import { table } from "../table.ts";
import { ACCESS_OPTION, readAccess } from "./access-source.ts";
import { readConfigFile } from "./read-config-file.ts";

export const routesCheck: Command = {
  name: "routes check",
  summary: "Check a routes file as the gateway would, without calling anything",
  positionals: ["file"],
  options: {
    access: ACCESS_OPTION,
    host: {
      type: "string",
      value: "host",
      multiple: true,
      description: "Host of the gateway (ALLOWED_HOSTS), of which no upstream may get a token; repeatable",
    },
  },
  async run({ positionals: [file = ""], values, lists }, backend) {
    const hosts = (lists.get("host") ?? []).map((host) => host.toLowerCase());
    const routes = await readConfigFile(file, (text) => parseRoutesFile(text, hosts), "routes_invalid");
    const text = routesTable(routes);
    const { rules, accessFile, source } = await readAccess({ values }, backend);
    const warnings = unknownNames(routes, rules);
    const warned =
      warnings.length === 0 ? "" : `\n\n${warnings.map((line) => `Warning: ${line}`).join("\n")}\n${source}`;
    return { text: `${text}${warned}`, json: { routes, warnings, accessFile } };
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
