import { accessSync, constants, existsSync } from "node:fs";
import { join } from "node:path";

/** Where a Chromium is installed. Undefined: its tests are skipped. */
export const CHROMIUM = ["chromium", "chromium-browser", "google-chrome"]
  .flatMap((name) => ["/usr/bin", ...(process.env.PATH ?? "").split(":")].map((folder) => join(folder, name)))
  .find((path) => existsSync(path) && isExecutable(path));

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
