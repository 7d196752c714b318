import { readFile } from "node:fs/promises";
import type { Logger } from "../telemetry/logger.ts";
import { type Repetition, repeat } from "../telemetry/repeat.ts";

export interface TextFileWatchOptions {
  path: string;
  /** In use now. */
  text: string;
  /** For the log: `routes file`. */
  what: string;
  /** @throws for a text that cannot be used; the one before stays in use. */
  take(text: string): void;
  /** After each change of the file. */
  onLook(result: "taken" | "refused"): void;
  lookEveryMs: number;
  logger: Logger;
  read?: (path: string) => Promise<string>;
}

/** Polls, because watchers may miss a ConfigMap's change of links. */
export function watchTextFile(options: TextFileWatchOptions): Repetition {
  const { path, what, take, onLook, logger, read = (file) => readFile(file, "utf8") } = options;
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
