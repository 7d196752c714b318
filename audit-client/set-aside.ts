import { basename, join } from "node:path";
import type { SpoolFileSystem } from "./spool-file-system.ts";

const SUFFIX = ".damaged";

/** Of files that people have to look at. With a dot: no process takes it over for the directory of a dead one. */
export const DAMAGED_DIRECTORY = ".damaged";

/** Removes a file whose entries were all sent, or sets it aside if some can no longer be read. */
export async function discardFile(
  files: SpoolFileSystem,
  { path, isDamaged = false }: { path: string; isDamaged?: boolean | undefined },
  damagedDirectory: string,
): Promise<void> {
  if (isDamaged) await setAside(files, path, damagedDirectory);
  else await files.remove(path);
}

/** Keeps a file where nobody reads it as a spool file. */
export async function setAside(
  files: SpoolFileSystem,
  path: string,
  damagedDirectory: string,
): Promise<void> {
  await files.makeDirectory(damagedDirectory);
  const name = basename(path, SUFFIX);
  await files.rename(path, join(damagedDirectory, `${name}${SUFFIX}`));
}

export function isSetAside(path: string): boolean {
  return path.endsWith(SUFFIX);
}
