import { basename, join } from "node:path";
import type { Logger } from "../service-kit/logger.ts";
import type { SpoolFileSystem } from "./spool-file-system.ts";
import { isLocked, lockDirectory } from "./spool-lock.ts";
import { recoverSegment, type SpoolSegment } from "./spool-segment.ts";

/** Entries that one former process has left: files whose sequences follow each other without a gap, in order. */
export type FormerRun = SpoolSegment[];

/** The directory that all processes of one host share; each has a directory of its own in it, and its lock. */
export interface SpoolDirectory {
  /** Of this process. */
  own: string;
  /** Takes over what processes that live no more have left, and reads it. Damaged tails are cut off. */
  takeOver(): Promise<FormerRun[]>;
  /** Removes our own directory if nothing is left in it, and gives up the lock. */
  close(): Promise<void>;
}

interface Deps {
  files: SpoolFileSystem;
  /** The shared directory; made if it is not there. */
  path: string;
  producerId: string;
  logger: Logger;
}

const SPOOL_FILE = /\.spool$/;
/** A directory being made: not to be taken over, it has no lock yet and nothing in it. */
const UNFINISHED = /^\./;

/** @throws what the file system says: the process cannot keep what it promises, and is not to start. */
export async function openSpoolDirectory({ files, path, producerId, logger }: Deps): Promise<SpoolDirectory> {
  const own = join(path, producerId);
  const unfinished = join(path, `.${producerId}`);
  await files.makeDirectory(unfinished);
  const lock = await lockDirectory(unfinished);
  await files.rename(unfinished, own);
  await files.syncDirectory(path);

  /** One of several processes that try the same gets it: renaming is atomic. */
  async function takeOverDirectory(name: string): Promise<void> {
    try {
      await files.rename(join(path, name), join(own, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }

  async function readFormer(): Promise<SpoolSegment[]> {
    const segments: SpoolSegment[] = [];
    for (const name of await files.list(own)) {
      const isFormer = name.includes("/") && SPOOL_FILE.test(name);
      if (!isFormer) continue;
      const file = await files.open(join(own, name));
      const { segment, cutBytes, isDamaged } = await recoverSegment(join(own, name), file);
      if (cutBytes > 0) logger.warn({ file: name, cutBytes }, "the torn end of a spool file was cut off");
      if (isDamaged) {
        const fromSequence = segment === undefined ? undefined : segment.lastSequence + 1;
        logger.error(
          { file: name, fromSequence },
          "audit entries in the spool cannot be read any more; their file is kept",
        );
      }
      if (segment !== undefined) {
        segments.push(segment);
        continue;
      }
      await file.close();
      await discardFile(files, join(own, name), isDamaged);
    }
    return segments;
  }

  return {
    own,
    async takeOver() {
      for (const name of await files.listDirectories(path)) {
        if (UNFINISHED.test(name) || name === producerId || (await isLocked(join(path, name)))) continue;
        await takeOverDirectory(name);
      }
      return runsOf(await readFormer());
    },
    async close() {
      const left = (await files.list(own)).filter((name) => name.includes(".spool"));
      await lock.release();
      if (left.length === 0) await files.remove(own);
    },
  };
}

/** Removes a file whose entries were all sent, or renames it if some can no longer be read. */
export async function discardFile(files: SpoolFileSystem, path: string, isDamaged = false): Promise<void> {
  if (isDamaged) await files.rename(path, `${path}.damaged`);
  else await files.remove(path);
}

/** By producer and file, split where sequences are missing: those were acknowledged without the spool. */
function runsOf(segments: readonly SpoolSegment[]): FormerRun[] {
  const inOrder = [...segments].sort((a, b) => (basename(a.path) < basename(b.path) ? -1 : 1));
  const runs: FormerRun[] = [];
  for (const segment of inOrder) {
    const before = runs.at(-1)?.at(-1);
    const follows =
      before?.producerId === segment.producerId && segment.firstSequence <= before.lastSequence + 1;
    if (follows) runs.at(-1)?.push(segment);
    else runs.push([segment]);
  }
  return runs;
}
