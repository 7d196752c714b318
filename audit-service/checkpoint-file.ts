import { open } from "node:fs/promises";
import { readCheckpoint, type TreeHead } from "./checkpoint.ts";

/** Checkpoints outside the database, a line of JSON each, for a mount of another system. */
export interface CheckpointFile {
  /** The largest head of this origin at the end of the file; undefined if there is none. */
  last(origin: string): Promise<TreeHead | undefined>;
  /** Resolves once the line is on the disk. */
  append(note: string): Promise<void>;
}

/** Lines are a few hundred bytes: this holds many, of whatever origin. */
const TAIL_BYTES = 256 * 1024;

export function checkpointFile(path: string): CheckpointFile {
  return {
    async last(origin) {
      const heads = (await readTail(path)).split("\n").flatMap((line) => headOf(line, origin));
      return heads.reduce<TreeHead | undefined>(
        (largest, head) => (largest === undefined || head.size > largest.size ? head : largest),
        undefined,
      );
    },
    async append(note) {
      const file = await open(path, "a+", 0o600);
      try {
        // A line that a crash has torn must not swallow this one.
        const torn = !(await endsLine(file));
        await file.appendFile(`${torn ? "\n" : ""}${JSON.stringify({ type: "checkpoint", note })}\n`);
        await file.sync();
      } finally {
        await file.close();
      }
    },
  };
}

type File = Awaited<ReturnType<typeof open>>;

async function endsLine(file: File): Promise<boolean> {
  const { size } = await file.stat();
  if (size === 0) return true;
  const { buffer } = await file.read(Buffer.alloc(1), 0, 1, size - 1);
  return buffer[0] === 0x0a;
}

async function readTail(path: string): Promise<string> {
  const file = await open(path, "a+", 0o600);
  try {
    const { size } = await file.stat();
    const length = Math.min(size, TAIL_BYTES);
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.toString("utf8");
  } finally {
    await file.close();
  }
}

/** None for a torn line or another log's. */
function headOf(line: string, origin: string): TreeHead[] {
  try {
    const { note } = JSON.parse(line) as { note?: unknown };
    const head = typeof note === "string" ? readCheckpoint(note) : undefined;
    return head?.origin === origin ? [head] : [];
  } catch {
    return [];
  }
}
