import { basename, join } from "node:path";
import type { Logger } from "#kit/telemetry/logger.ts";
import {
  DAMAGED_DIRECTORY,
  discardFile,
  isSetAside,
  type SpoolFileSystem,
  setAside,
} from "./spool-file-system.ts";
import { isLocked, lockDirectory, type SpoolLock } from "./spool-lock.ts";
import { recoverSegment, type SpoolSegment } from "./spool-segment.ts";

export const UNREADABLE_ENTRIES = "audit entries in the spool can no longer be read; their file is kept";

/** Files of one former process with consecutive sequences. */
export type FormerRun = SpoolSegment[];

interface Deps {
  files: SpoolFileSystem;
  path: string;
  /** Names the directory inside `path`, unique. */
  name: string;
  logger: Logger;
}

const SPOOL_FILE = /\.spool$/;
/** A directory in preparation has no lock yet. */
const UNFINISHED = /^\./;

/** Shared by processes of a host, each with its own locked directory inside. */
export class SpoolDirectory {
  readonly own: string;
  /** Quarantine for damaged files. */
  readonly damaged: string;
  readonly #deps: Deps;
  readonly #lock: SpoolLock;
  readonly #stuck = new Set<string>();
  readonly #taken = new Set<string>();

  /** @throws the file system's error. */
  static async open(deps: Deps): Promise<SpoolDirectory> {
    const { files, path, name } = deps;
    const unfinished = join(path, `.${name}`);
    await files.makeDirectory(unfinished);
    const lock = await lockDirectory(unfinished);
    await files.rename(unfinished, join(path, name));
    await files.syncDirectory(path);
    return new SpoolDirectory(deps, lock);
  }

  private constructor(deps: Deps, lock: SpoolLock) {
    this.#deps = deps;
    this.#lock = lock;
    this.own = join(deps.path, deps.name);
    this.damaged = join(deps.path, DAMAGED_DIRECTORY);
  }

  async takeOver(): Promise<FormerRun[]> {
    const { files, path, name: ownName, logger } = this.#deps;
    try {
      for (const name of await files.listDirectories(path)) {
        if (!UNFINISHED.test(name) && name !== ownName) await this.#takeOverDirectory(name);
      }
      return runsOf(await this.#readFormer());
    } catch (error) {
      logger.error({ err: error }, "spool directories of former processes cannot be listed");
      return [];
    }
  }

  async countDamaged(): Promise<number> {
    const { files, path } = this.#deps;
    const directories = await files.listDirectories(path);
    const kept = directories.includes(DAMAGED_DIRECTORY) ? await files.list(this.damaged) : [];
    return kept.length + this.#stuck.size;
  }

  async countUnsent(): Promise<number> {
    const { files, path } = this.#deps;
    return (await files.list(path)).filter((name) => SPOOL_FILE.test(name)).length;
  }

  async close(): Promise<void> {
    const { files } = this.#deps;
    const left = (await files.list(this.own)).filter((name) => name.includes(".spool"));
    await this.#lock.release();
    if (left.length === 0) await files.remove(this.own);
  }

  /** A rename is atomic, so only one process succeeds. */
  async #takeOverDirectory(name: string): Promise<void> {
    const { files, path, logger } = this.#deps;
    try {
      if (await isLocked(join(path, name))) return;
      await files.rename(join(path, name), join(this.own, name));
      await this.#flatten(name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
      logger.error({ err: error, directory: name }, "a former process' spool directory cannot be taken over");
    }
  }

  /** Paths would otherwise grow with every restart. */
  async #flatten(name: string): Promise<void> {
    const { files } = this.#deps;
    for (const inner of await files.listDirectories(join(this.own, name))) {
      await files.rename(join(this.own, name, inner), join(this.own, inner));
      await this.#flatten(inner);
    }
    const left = await files.list(join(this.own, name));
    for (const file of left.filter(isSetAside))
      await setAside(files, join(this.own, name, file), this.damaged);
    if (!left.some((file) => SPOOL_FILE.test(file))) await files.remove(join(this.own, name));
  }

  async #readFormer(): Promise<SpoolSegment[]> {
    const segments: SpoolSegment[] = [];
    for (const name of await this.#deps.files.list(this.own)) {
      const isFormer = name.includes("/") && SPOOL_FILE.test(name);
      if (!isFormer || this.#taken.has(name) || this.#stuck.has(name)) continue;
      const segment = await this.#readFile(name).catch((error: unknown) => this.#giveUp(name, error));
      if (segment === undefined) continue;
      this.#taken.add(name);
      segments.push(segment);
    }
    return segments;
  }

  async #readFile(name: string): Promise<SpoolSegment | undefined> {
    const { files, logger } = this.#deps;
    const filePath = join(this.own, name);
    const file = await files.open(filePath);
    try {
      const { segment, cutBytes, isDamaged, lost } = await recoverSegment(filePath, file);
      if (cutBytes > 0) logger.warn({ file: name, cutBytes }, "the torn end of a spool file was cut off");
      if (isDamaged) logger.error({ file: name, lost }, UNREADABLE_ENTRIES);
      if (segment !== undefined) return segment;
      await discardFile(files, { path: filePath, isDamaged }, this.damaged);
    } catch (error) {
      await file.close().catch(() => undefined);
      throw error;
    }
    await file.close();
    return undefined;
  }

  /** An unreadable file must not prevent a start. */
  async #giveUp(name: string, error: unknown): Promise<undefined> {
    const { files, logger } = this.#deps;
    logger.error({ err: error, file: name }, "a spool file cannot be read; it is set aside");
    try {
      await setAside(files, join(this.own, name), this.damaged);
    } catch (cause) {
      this.#stuck.add(name);
      logger.error({ err: cause, file: name }, "a spool file cannot be set aside");
    }
  }
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
