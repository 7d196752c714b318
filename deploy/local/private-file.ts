import { randomBytes } from "node:crypto";
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { errorCode } from "./launch-error.ts";

/** Makes a directory only its owner may enter (0700), whatever the umask. Existing ones are tightened. */
export async function makePrivateDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await chmod(path, 0o700);
}

/** Writes a file only its owner may read (0600); a reader or a crash sees the old or the new text, never half of it. */
export async function writePrivateFile(path: string, content: string): Promise<void> {
  await writeFile(`${path}.new`, content, { mode: 0o600, flush: true });
  await rename(`${path}.new`, path);
}

/** The text of a file, or undefined if there is none. Any other failure is thrown. */
export async function readIfPresent(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/**
 * The one-line secret kept at `path`; made and kept there if the file is missing or empty.
 * An existing file is tightened to 0600.
 */
export async function keptSecret(path: string, make: () => string): Promise<string> {
  const kept = (await readIfPresent(path))?.trim();
  if (kept) {
    await chmod(path, 0o600);
    return kept;
  }
  const made = make();
  await writePrivateFile(path, `${made}\n`);
  return made;
}

/** 32 random bytes as base64url: safe in URLs, SQL literals and shells without quoting. */
export function randomPassword(): string {
  return randomBytes(32).toString("base64url");
}
