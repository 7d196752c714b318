import { readFile, symlink } from "node:fs/promises";
import { basename, dirname, join, relative, resolve, sep } from "node:path";
import { z } from "zod";
import { errorCode } from "../launch-error.ts";

const symlinksSchema = z.array(z.object({ source: z.string(), target: z.string() }));

/**
 * Makes the links of shared libraries which npm cannot pack, in the package or in a copy of it. The package's own
 * install script would, but install scripts are off. Links that are there already, also by another process just now,
 * are left alone; where we may not write, they are there or the caller finds out by trying.
 */
export async function hydrateSymlinks(directory: string): Promise<void> {
  const list = await readFile(join(directory, "pg-symlinks.json"), "utf8").catch(() => "[]");
  for (const { source, target } of symlinksSchema.parse(JSON.parse(list))) {
    const file = resolve(directory, relative("native", source));
    const link = resolve(directory, relative("native", target));
    if (dirname(file) !== dirname(link) || !link.startsWith(directory + sep)) continue;
    try {
      await symlink(basename(file), link);
    } catch (error) {
      if (!["EEXIST", "EROFS", "EACCES", "EPERM"].includes(errorCode(error) ?? "")) throw error;
    }
  }
}
