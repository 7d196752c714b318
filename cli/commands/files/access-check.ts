import { type AccessFile, parseAccessFile } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import { parseRoutesFile } from "#routes-file/routes-file.ts";
import { unknownNames } from "#routes-file/unknown-names.ts";
import type { Command } from "../../command.ts";
import { table } from "../table.ts";
import { readConfigFile } from "./read-config-file.ts";

export const accessCheck: Command = {
  name: "access check",
  summary: "Check an access file as the gateway and identity-service would, without calling anything",
  positionals: ["file"],
  options: {
    routes: {
      type: "string",
      value: "file",
      description: "warn of names in this routes file that it does not have",
    },
  },
  async run({ positionals: [file = ""], values }) {
    const access: AccessFile = await readConfigFile(file, parseAccessFile, "access_invalid");
    const rules = new AccessTable(access);
    const rows = rules.roles.map((role) => [
      role === rules.defaultRole ? `${role} (default)` : role,
      access.roles[role]?.join(" ") ?? "",
      sessionText(rules, role),
    ]);
    const routesFile = values.get("routes");
    const routes =
      routesFile === undefined ? [] : await readConfigFile(routesFile, parseRoutesFile, "routes_invalid");
    const warnings = unknownNames(routes, rules);
    const warned = warnings.map((line) => `\nWarning: ${line}`).join("");
    return {
      text: `${table(["ROLE", "PERMISSIONS", "SESSIONS"], rows)}${warned}`,
      json: { access, warnings },
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
