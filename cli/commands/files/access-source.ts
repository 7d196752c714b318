import { parseAccessFile, SHIPPED_ACCESS_FILE } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import type { Backend } from "../../backend.ts";
import type { CommandInput, CommandOption } from "../../command.ts";
import { readConfigFile } from "./read-config-file.ts";

export const ACCESS_OPTION: CommandOption = {
  type: "string",
  value: "file",
  description: "the access file; default: ACCESS_FILE, or else the file that ships",
};

/** The rules, and which file they are from: one that is not the running gateway's answers another question. */
export async function readAccess(
  { values }: Pick<CommandInput, "values">,
  { environment }: Pick<Backend, "environment">,
): Promise<{ rules: AccessTable; accessFile: string; source: string }> {
  const named = values.get("access");
  const configured = environment.ACCESS_FILE || undefined;
  const accessFile = named ?? configured ?? SHIPPED_ACCESS_FILE;
  const which = named === undefined && configured === undefined ? ", which ships with Gatehouse" : "";
  const rules = new AccessTable(await readConfigFile(accessFile, parseAccessFile, "access_invalid"));
  return { rules, accessFile, source: `By ${accessFile}${which}.` };
}
