import { randomBytes } from "node:crypto";
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { errorCode } from "./launch-error.ts";

/** Mode 0700, also for an existing directory. */
export async function makePrivateDirectory(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await chmod(path, 0o700);
}

/** Mode 0600. Atomic for readers and crashes. */
export async function writePrivateFile(path: string, content: string): Promise<void> {
  await writeFile(`${path}.new`, content, { mode: 0o600, flush: true });
  await rename(`${path}.new`, path);
}

export async function readIfPresent(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

/** Returns the one-line secret in the file, or creates it if the file is missing or empty. Mode 0600. */
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

/** 32 random bytes as base64url, which needs no quoting in URLs, SQL literals and shells. */
export function randomPassword(): string {
  return randomBytes(32).toString("base64url");
}
