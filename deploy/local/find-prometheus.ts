import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Whether `prometheus` is on the path. */
export function hasPrometheus(path = ""): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, "prometheus"), constants.X_OK);
      return folder !== "";
    } catch {
      return false;
    }
  });
}
