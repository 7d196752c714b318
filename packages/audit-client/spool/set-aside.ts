import { basename, join } from "node:path";
import type { SpoolFileSystem } from "./spool-file-system.ts";

const SUFFIX = ".damaged";

/** The dot prevents a takeover of the directory. */
export const DAMAGED_DIRECTORY = ".damaged";

export async function discardFile(
  files: SpoolFileSystem,
  { path, isDamaged = false }: { path: string; isDamaged?: boolean | undefined },
  damagedDirectory: string,
): Promise<void> {
  if (isDamaged) await setAside(files, path, damagedDirectory);
  else await files.remove(path);
}

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
