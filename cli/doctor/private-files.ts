import { readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { type Finding, failed, ok, reasonOf } from "./finding.ts";

/** Nobody else may do anything with a home. */
const OF_OTHERS = 0o077;

/** What the home of `npm start` keeps secret. A service's own secret files are part of the check of its configuration. */
export function checkPrivateFiles(home: string): Finding[] {
  const folders = ["secrets", "tls", "services"].map((name) => join(home, name));
  const found: Finding[] = [];
  let looked = 0;
  for (const path of [home, ...folders, ...folders.flatMap((folder) => filesIn(folder, found))]) {
    try {
      const open = statSync(path).mode & OF_OTHERS;
      looked += 1;
      if (open === 0) continue;
      const mode = open.toString(8).padStart(3, "0");
      found.push(failed("permission", path, `others may use it (mode …${mode})`, `chmod go= ${path}`));
    } catch (error) {
      found.push(
        failed("permission", path, `cannot be looked at (${reasonOf(error)})`, "Run npm start on this home"),
      );
    }
  }
  return found.length > 0
    ? found
    : [ok("permission", home, `${looked} files and folders are their owner's only`)];
}

function filesIn(folder: string, found: Finding[]): string[] {
  try {
    return readdirSync(folder).map((name) => join(folder, name));
  } catch (error) {
    found.push(
      failed("permission", folder, `cannot be read (${reasonOf(error)})`, "Run npm start on this home"),
    );
    return [];
  }
}
