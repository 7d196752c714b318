import { readFile, stat } from "node:fs/promises";
import type { Logger } from "../telemetry/logger.ts";
import { type Repetition, repeat } from "../telemetry/repeat.ts";

export interface TextFileWatchOptions {
  path: string;
  /** The text that is in use now. */
  text: string;
  /** For the log: `routes file`. */
  what: string;
  /** @throws for a text that cannot be used; the one before stays in use. */
  take(text: string): void;
  /** Called after each change of the file. */
  onLook(result: "taken" | "refused"): void;
  lookEveryMs: number;
  logger: Logger;
  read?: (path: string) => Promise<string>;
}

/** More than a tick of any file system's clock. */
const SETTLED_MS = 2_000;

/** Differs after a replacement, a swapped link and a change in place. @throws the file system's error. */
export async function identifyFile(path: string): Promise<string> {
  const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
  return [dev, ino, size, mtimeNs, ctimeNs].join(" ");
}

/** Reads a file that has changed, and for two seconds more: another change may share its time. @throws as `readFile`. */
export function createChangeReader({
  identify = identifyFile,
  nowMs = () => performance.now(),
} = {}): (path: string) => Promise<string> {
  let identity = "";
  let text = "";
  let changedMs = 0;
  let readMs = Number.NEGATIVE_INFINITY;
  return async (path) => {
    const lookedMs = nowMs();
    const found = await identify(path);
    if (found !== identity) changedMs = lookedMs;
    identity = found;
    if (readMs - changedMs < SETTLED_MS) {
      text = await readFile(path, "utf8");
      readMs = lookedMs;
    }
    return text;
  };
}

/** Polls, because watchers may miss a ConfigMap's change of links. */
export function watchTextFile(options: TextFileWatchOptions): Repetition {
  const { path, what, take, onLook, logger, read = createChangeReader() } = options;
  let seen = options.text;
  const look = async () => {
    const text = await read(path).catch((error: NodeJS.ErrnoException) => `\0${error.code}`);
    if (text === seen) return;
    seen = text;
    try {
      if (text.startsWith("\0")) throw new Error(`the ${what} cannot be read (${text.slice(1)})`);
      take(text);
      logger.info(`the ${what} has changed and is in use`);
      onLook("taken");
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      logger.error({ reason }, `the ${what} has changed and cannot be used: the one before stays in use`);
      onLook("refused");
    }
  };
  return repeat(what, options.lookEveryMs, look, logger);
}
