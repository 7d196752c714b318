import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/**
 * The path of the first of these programs that there is. Debian keeps servers in /usr/sbin.
 * @param before folders to look in before those of the PATH.
 */
export function findProgram(names: readonly string[], before: readonly string[] = []): string | undefined {
  const path = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  const folders = [...before, ...path, "/usr/sbin"];
  return names.flatMap((name) => folders.map((folder) => join(folder, name))).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
