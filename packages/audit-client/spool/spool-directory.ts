import { basename, join } from "node:path";
import type { Logger } from "#kit/telemetry/logger.ts";
import { DAMAGED_DIRECTORY, discardFile, isSetAside, setAside } from "./set-aside.ts";
import type { SpoolFileSystem } from "./spool-file-system.ts";
import { isLocked, lockDirectory } from "./spool-lock.ts";
import { recoverSegment, type SpoolSegment } from "./spool-segment.ts";

export const UNREADABLE_ENTRIES = "audit entries in the spool can no longer be read; their file is kept";

/** Files of one former process with consecutive sequences. */
export type FormerRun = SpoolSegment[];

/** Shared by processes of a host, each with its own locked directory inside. */
export interface SpoolDirectory {
  own: string;
  /** Quarantine for damaged files. */
  damaged: string;
  takeOver(): Promise<FormerRun[]>;
  countDamaged(): Promise<number>;
  countUnsent(): Promise<number>;
  close(): Promise<void>;
}

interface Deps {
  files: SpoolFileSystem;
  path: string;
  producerId: string;
  logger: Logger;
}

const SPOOL_FILE = /\.spool$/;
/** A directory in preparation has no lock yet. */
const UNFINISHED = /^\./;

/** @throws the file system's error. */
export async function openSpoolDirectory({ files, path, producerId, logger }: Deps): Promise<SpoolDirectory> {
  const own = join(path, producerId);
  const unfinished = join(path, `.${producerId}`);
  await files.makeDirectory(unfinished);
  const lock = await lockDirectory(unfinished);
  await files.rename(unfinished, own);
  await files.syncDirectory(path);
  const damaged = join(path, DAMAGED_DIRECTORY);
  const stuck = new Set<string>();
  const taken = new Set<string>();

  /** A rename is atomic, so only one process succeeds. */
  async function takeOverDirectory(name: string): Promise<void> {
    try {
      if (await isLocked(join(path, name))) return;
      await files.rename(join(path, name), join(own, name));
      await flatten(name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
      logger.error({ err: error, directory: name }, "a former process' spool directory cannot be taken over");
    }
  }

  /** Paths would otherwise grow with every restart. */
  async function flatten(name: string): Promise<void> {
    for (const inner of await files.listDirectories(join(own, name))) {
      await files.rename(join(own, name, inner), join(own, inner));
      await flatten(inner);
    }
    const left = await files.list(join(own, name));
    for (const file of left.filter(isSetAside)) await setAside(files, join(own, name, file), damaged);
    if (!left.some((file) => SPOOL_FILE.test(file))) await files.remove(join(own, name));
  }

  async function readFormer(): Promise<SpoolSegment[]> {
    const segments: SpoolSegment[] = [];
    for (const name of await files.list(own)) {
      const isFormer = name.includes("/") && SPOOL_FILE.test(name);
      if (!isFormer || taken.has(name) || stuck.has(name)) continue;
      const segment = await readFile(name).catch((error: unknown) => giveUp(name, error));
      if (segment === undefined) continue;
      taken.add(name);
      segments.push(segment);
    }
    return segments;
  }

  async function readFile(name: string): Promise<SpoolSegment | undefined> {
    const filePath = join(own, name);
    const file = await files.open(filePath);
    try {
      const { segment, cutBytes, isDamaged, lost } = await recoverSegment(filePath, file);
      if (cutBytes > 0) logger.warn({ file: name, cutBytes }, "the torn end of a spool file was cut off");
      if (isDamaged) logger.error({ file: name, lost }, UNREADABLE_ENTRIES);
      if (segment !== undefined) return segment;
      await discardFile(files, { path: filePath, isDamaged }, damaged);
    } catch (error) {
      await file.close().catch(() => undefined);
      throw error;
    }
    await file.close();
    return undefined;
  }

  /** An unreadable file must not prevent a start. */
  async function giveUp(name: string, error: unknown): Promise<undefined> {
    logger.error({ err: error, file: name }, "a spool file cannot be read; it is set aside");
    try {
      await setAside(files, join(own, name), damaged);
    } catch (cause) {
      stuck.add(name);
      logger.error({ err: cause, file: name }, "a spool file cannot be set aside");
    }
  }

  return {
    own,
    damaged,
    async takeOver() {
      try {
        for (const name of await files.listDirectories(path)) {
          if (!UNFINISHED.test(name) && name !== producerId) await takeOverDirectory(name);
        }
        return runsOf(await readFormer());
      } catch (error) {
        logger.error({ err: error }, "spool directories of former processes cannot be listed");
        return [];
      }
    },
    async countDamaged() {
      const directories = await files.listDirectories(path);
      const kept = directories.includes(DAMAGED_DIRECTORY) ? await files.list(damaged) : [];
      return kept.length + stuck.size;
    },
    async countUnsent() {
      return (await files.list(path)).filter((name) => SPOOL_FILE.test(name)).length;
    },
    async close() {
      const left = (await files.list(own)).filter((name) => name.includes(".spool"));
      await lock.release();
      if (left.length === 0) await files.remove(own);
    },
  };
}

/** Missing sequences were acknowledged without the spool. */
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
