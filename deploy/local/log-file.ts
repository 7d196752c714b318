import { open, rename } from "node:fs/promises";
import { errorCode } from "./launch-error.ts";

const TAIL_BYTES = 16 * 1024;

/** Begins a log file anew; the previous one is kept as `<path>.1`. */
export async function rotateLog(path: string): Promise<void> {
  try {
    await rename(path, `${path}.1`);
  } catch (error) {
    if (errorCode(error) !== "ENOENT") throw error;
  }
  await (await open(path, "a", 0o600)).close();
}

/** The last lines of a log file which are not blank, at most `count`; none if it cannot be read. */
export async function lastLines(path: string, count: number): Promise<string[]> {
  try {
    const file = await open(path, "r");
    try {
      const { size } = await file.stat();
      const start = Math.max(0, size - TAIL_BYTES);
      const { buffer, bytesRead } = await file.read(Buffer.alloc(size - start), 0, size - start, start);
      const lines = buffer.toString("utf8", 0, bytesRead).split("\n");
      return lines.filter((line) => line.trim() !== "").slice(-count);
    } finally {
      await file.close();
    }
  } catch {
    return [];
  }
}

/**
 * Why a process ended, in one line out of the end of its log: its last fatal or error entry (pino writes JSON), else
 * the message of the last error that node printed; undefined if it left no word about it.
 */
export function reasonIn(lines: readonly string[]): string | undefined {
  const entries = lines.map(logEntry).filter((entry) => entry !== undefined);
  const worst = entries.findLast(({ level }) => level >= 60) ?? entries.findLast(({ level }) => level >= 50);
  if (worst) return worst.text;
  return lines.findLast((line) => /^\S*(Error|configuration)\b.*:|^The configuration/.test(line))?.trim();
}

function logEntry(line: string): { level: number; text: string } | undefined {
  try {
    const { level, msg, err } = JSON.parse(line) as {
      level?: unknown;
      msg?: unknown;
      err?: { message?: unknown };
    };
    const rank = typeof level === "number" ? level : { error: 50, fatal: 60 }[String(level)];
    if (rank === undefined) return undefined;
    const texts = [msg, err?.message].filter((text) => typeof text === "string" && text !== "");
    return { level: rank, text: [...new Set(texts)].join(": ") };
  } catch {
    return undefined;
  }
}
