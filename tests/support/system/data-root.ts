import { accessSync, constants, statfsSync } from "node:fs";
import { tmpdir } from "node:os";

const IN_MEMORY = "/dev/shm";
/** Of all systems and databases that run at once. A container's default is 64 MiB. */
const NEEDED_BYTES = 4 * 2 ** 30;

/** Where tests put the data of databases: in memory if there is room, because half of their CPU time went to files. */
export const DATA_ROOT = hasRoom(IN_MEMORY) ? IN_MEMORY : tmpdir();

function hasRoom(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK);
    const { bavail, bsize } = statfsSync(folder);
    return bavail * bsize >= NEEDED_BYTES;
  } catch {
    return false;
  }
}
