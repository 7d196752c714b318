import { type AccessFile, parseAccessFile } from "../../access-file/access-file.ts";
import { AccessTable } from "../../access-file/access-rules.ts";
import type { Command } from "../command.ts";
import { readConfigFile } from "./read-config-file.ts";
import { table } from "./table.ts";

export const accessCheck: Command = {
  name: "access check",
  summary: "Check an access file as the gateway and identity-service would, without calling anything",
  positionals: ["file"],
  options: {},
  async run({ positionals: [file = ""] }) {
    const access: AccessFile = await readConfigFile(file, parseAccessFile, "access_invalid");
    const rules = new AccessTable(access);
    const rows = rules.roles.map((role) => [
      role === rules.defaultRole ? `${role} (default)` : role,
      access.roles[role]?.join(" ") ?? "",
      sessionText(rules, role),
    ]);
    return { text: table(["ROLE", "PERMISSIONS", "SESSIONS"], rows), json: { access } };
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
