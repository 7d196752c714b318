import { type AccessFile, parseAccessFile } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import { unknownNames } from "#routes-file/unknown-names.ts";
import type { Command } from "../../command.ts";
import { table } from "../table.ts";
import { gatewayFile, ROUTES_OPTION, readRoutes } from "./gateway-files.ts";
import { readConfigFile } from "./read-config-file.ts";

export const accessCheck: Command = {
  name: "access check",
  summary: "Check an access file, as the gateway and identity-service would, without calling anything",
  details:
    "Without <file>, the file of the local Gatehouse's home. It warns of names in the routes file that the access file does not have.",
  positionals: [],
  optionalPositionals: ["file"],
  options: { routes: ROUTES_OPTION },
  async run(input, backend) {
    const file = input.positionals[0] ?? gatewayFile("access", input, backend);
    const access: AccessFile = await readConfigFile(file, parseAccessFile, "access_invalid");
    const rules = new AccessTable(access);
    const rows = rules.roles.map((role) => [
      role === rules.defaultRole ? `${role} (default)` : role,
      access.roles[role]?.join(" ") ?? "",
      sessionText(rules, role),
    ]);
    const { routes, routesFile } = await readRoutes(input, backend);
    const warnings = unknownNames(routes, rules);
    const warned = warnings.map((line) => `Warning: ${line}\n`).join("");
    const source = [file, routesFile ?? []].flat().join(" and ");
    return {
      text: `${table(["ROLE", "PERMISSIONS", "SESSIONS"], rows)}\n\n${warned}By ${source}.`,
      json: { file, access, routesFile, warnings },
    };
  },
};

function sessionText(rules: AccessTable, role: string): string {
  const { idleS, absoluteS, atMost } = rules.sessionLimits(role);
  const parts = [
    ...(idleS === undefined ? [] : [`${idleS / 60} min idle`]),
    ...(absoluteS === undefined ? [] : [`${absoluteS / 3_600} h`]),
    ...(atMost === undefined ? [] : [`at most ${atMost}`]),
  ];
  return parts.join(", ") || "as token-service is set";
}
