import { createReadStream } from "node:fs";
import { stat } from "node:fs/promises";
import { text } from "node:stream/consumers";

const TAIL_BYTES = 16 * 1024;
const COMPLAINTS_SHOWN = 3;

/** Omits blank lines. Empty if the file cannot be read. */
export async function lastLines(path: string, count: number): Promise<string[]> {
  try {
    const { size } = await stat(path);
    const tail = await text(createReadStream(path, { start: Math.max(0, size - TAIL_BYTES) }));
    const lines = tail.split("\n").filter((line) => line.trim() !== "");
    return lines.slice(-count);
  } catch {
    return [];
  }
}

/** Returns the last fatal entry, else the last error entry (pino's JSON), else the last error printed by Node. */
export function reasonIn(lines: readonly string[]): string | undefined {
  const entries = lines.map(logEntry).filter((entry) => entry !== undefined);
  const worst = entries.findLast(({ level }) => level >= 60) ?? entries.findLast(({ level }) => level >= 50);
  if (worst) return worst.text;
  const at = lines.findLastIndex((line) =>
    /^[^{\s]*(Error|configuration)\b.*:|^The configuration/.test(line),
  );
  // A list of problems follows a colon.
  const count = lines[at]?.trimEnd().endsWith(":") ? 2 : 1;
  return at === -1
    ? undefined
    : lines
        .slice(at, at + count)
        .map((line) => line.trim())
        .join(" ");
}

/** What a process that is not ready complains of: its last different warnings and errors. */
export function complaintsIn(lines: readonly string[]): string {
  const entries = lines.map(logEntry).filter((entry) => entry !== undefined && entry.level >= 40);
  return [...new Set(entries.map((entry) => entry?.text))].slice(-COMPLAINTS_SHOWN).join("; ");
}

function logEntry(line: string): { level: number; text: string } | undefined {
  try {
    const { level, msg, err } = JSON.parse(line);
    const rank = typeof level === "number" ? level : { warn: 40, error: 50, fatal: 60 }[String(level)];
    if (rank === undefined) return undefined;
    const texts = [msg, err?.message].filter((text) => typeof text === "string" && text !== "");
    return { level: rank, text: [...new Set(texts)].join(": ") };
  } catch {
    return undefined;
  }
}
