import { createHash } from "node:crypto";
import { chmod, cp, lstat, mkdtemp, readdir, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, sep } from "node:path";
import { errorCode, errorText } from "../launch-error.ts";
import { hydrateSymlinks } from "./postgres-program-links.ts";

/** Needed to build against PostgreSQL, not to run it: a third of the size. */
const NOT_NEEDED = /\.a$|[/\\](pkgconfig|include)$/;
const GROUP_OR_OTHERS_WRITE = 0o022;
const STICKY = 0o1000;

/** A place where a copy is, or why none could be had there. */
export interface Copy {
  directory: string;
  failure?: string;
}

/**
 * Copies of PostgreSQL's programs in places every user can reach, one after the other: the caller stops at the first
 * that serves. A copy is named after its content, belongs to this process's user, is writable for nobody else, and is
 * used again by later starts.
 */
export async function* reachableCopies(source: string): AsyncGenerator<Copy> {
  const name = `gatehouse-postgres-${await fingerprint(source)}`;
  for (const parent of new Set([tmpdir(), "/var/tmp", "/var/lib", "/run"])) {
    const directory = join(parent, name);
    try {
      await requireTrustedParents(directory);
      if (!(await isIntactCopy(directory, source))) await makeCopy(source, directory);
      await hydrateSymlinks(directory);
      yield { directory };
    } catch (error) {
      yield { directory, failure: errorText(error) };
    }
  }
}

/** Changes with the version and with any file; the large libraries count by name and size only. */
async function fingerprint(source: string): Promise<string> {
  const hash = createHash("sha256").update(await readFile(join(source, "bin", "postgres")));
  for (const file of await wantedFiles(source)) hash.update(`${file.path}:${file.size}\n`);
  return `${hash.digest("hex").slice(0, 16)}-${process.getuid?.() ?? 0}`;
}

/** Copies beside the goal and renames, so that nobody sees half a copy. */
async function makeCopy(source: string, directory: string): Promise<void> {
  const temporary = await mkdtemp(`${directory}.new-`);
  try {
    const copy = join(temporary, "native");
    await cp(source, copy, {
      recursive: true,
      verbatimSymlinks: true,
      filter: (path) => !NOT_NEEDED.test(path),
    });
    await openToAll(copy);
    await moveIntoPlace(copy, directory, source);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
}

async function moveIntoPlace(copy: string, directory: string, source: string): Promise<void> {
  try {
    await rename(copy, directory);
  } catch (error) {
    if (!["EEXIST", "ENOTEMPTY", "ENOTDIR"].includes(errorCode(error) ?? "")) throw error;
    // Another launcher may have been quicker. Else it is damaged (a cleaner of old files) or not ours: out of the way.
    if (await isIntactCopy(directory, source)) return;
    await rename(directory, join(dirname(copy), "replaced"));
    await rename(copy, directory);
  }
}

/** A umask, or npm's, may have left the files to root alone. */
async function openToAll(path: string): Promise<void> {
  const { mode } = await lstat(path);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    const child = join(path, entry.name);
    if (entry.isDirectory()) await openToAll(child);
    else if (entry.isFile()) await chmod(child, (await lstat(child)).mode & 0o100 ? 0o755 : 0o644);
  }
  await chmod(path, (mode & 0o700) | 0o755);
}

/** True if every file is there with the right size, and nobody but this process's user can have written it. */
async function isIntactCopy(directory: string, source: string): Promise<boolean> {
  try {
    await requireOwn(directory);
    if (!(await lstat(directory)).isDirectory()) return false; // a link: never followed, replaced
    const expected = await wantedFiles(source);
    const found = await wantedFiles(directory);
    const same = JSON.stringify(found) === JSON.stringify(expected);
    await Promise.all(found.map(({ path }) => requireOwn(join(directory, path))));
    return same;
  } catch (error) {
    if (errorCode(error) === "ENOENT") return false;
    throw error;
  }
}

async function requireOwn(path: string): Promise<void> {
  const info = await lstat(path);
  if (info.uid !== process.getuid?.()) throw new Error(`${path} belongs to another user`);
  if (!info.isSymbolicLink() && info.mode & GROUP_OR_OTHERS_WRITE)
    throw new Error(`${path} is writable for others`);
}

/** Whoever may rename a folder on the way decides what runs there. */
async function requireTrustedParents(directory: string): Promise<void> {
  for (let path = dirname(directory); ; path = dirname(path)) {
    const { uid, mode } = await lstat(path);
    if (uid !== 0 && uid !== process.getuid?.()) throw new Error(`${path} belongs to another user`);
    if (mode & GROUP_OR_OTHERS_WRITE && !(mode & STICKY)) throw new Error(`${path} is writable for others`);
    if (path === dirname(path)) return;
  }
}

/** The files worth copying, with paths relative to `directory`, in a fixed order. Links are made, not copied. */
async function wantedFiles(directory: string): Promise<{ path: string; size: number }[]> {
  const paths = (await readdir(directory, { recursive: true })).filter(
    (path) => !path.split(sep).some((part) => NOT_NEEDED.test(`/${part}`)),
  );
  const files = await Promise.all(
    paths.sort().map(async (path) => ({ path, info: await lstat(join(directory, path)) })),
  );
  return files.filter(({ info }) => info.isFile()).map(({ path, info }) => ({ path, size: info.size }));
}
