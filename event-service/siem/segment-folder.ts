import { randomUUID } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import { CollectorProblem } from "./collector.ts";
import type { SegmentPlace } from "./segments.ts";

const TIMEOUT_MS = 30_000;
/** In the folder, so that a rename stays on its file system. What a crash left there is removed. */
const UNFINISHED = ".unfinished";

/** A folder that exists: one that is not mounted is not made. */
export function openFolder(root: string): SegmentPlace {
  return {
    read: (name) => attempt(readIfThere(join(root, name))),
    write: (name, bytes, signal) => attempt(replaceFile(root, name, { bytes, signal })),
    close: async () => undefined,
  };
}

async function readIfThere(path: string): Promise<Buffer | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    return undefined;
  }
}

/** Whole and on the disk, or not there under this name. */
async function replaceFile(
  root: string,
  name: string,
  { bytes, signal }: { bytes: Buffer; signal: AbortSignal },
): Promise<void> {
  const path = join(root, name);
  const unfinished = join(root, UNFINISHED);
  await rm(unfinished, { recursive: true, force: true });
  for (const folder of [unfinished, dirname(path)]) await makeFolder(folder);
  const temporary = join(unfinished, randomUUID());
  const file = await open(temporary, "wx", 0o640);
  try {
    await file.writeFile(bytes, { signal });
    await file.sync();
  } finally {
    await file.close();
  }
  signal.throwIfAborted();
  await rename(temporary, path);
  for (const folder of [dirname(path), root]) await syncFolder(folder);
}

async function makeFolder(path: string): Promise<void> {
  await mkdir(path, { mode: 0o750 }).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
}

async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, "r");
  await folder.sync().finally(() => folder.close());
}

/** @throws {CollectorProblem} with the system's code: ENOSPC, EACCES, ENOENT. */
async function attempt<T>(work: Promise<T>): Promise<T> {
  try {
    return await withinDeadline(work, TIMEOUT_MS);
  } catch (cause) {
    const { code = "failed" } = cause as NodeJS.ErrnoException;
    throw new CollectorProblem(`folder: ${code === "service_unavailable" ? "too_slow" : code}`, { cause });
  }
}
