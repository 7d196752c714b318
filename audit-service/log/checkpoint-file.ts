import { open, rename, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import type { CheckpointSigner, TreeHead } from "./checkpoint.ts";

export interface CheckpointFile {
  /** The largest head signed by this log. */
  last(): Promise<TreeHead | undefined>;
  /** Resolves once the line is durable. */
  append(note: string): Promise<void>;
  freeBytes(): Promise<number>;
}

interface Deps {
  /** Grows by 210 MB a year. */
  path: string;
  signer: Pick<CheckpointSigner, "open">;
  monotonicMs?: () => number;
  files?: { open: typeof open; rename: typeof rename };
  maxLatestBytes?: number;
}

const TAIL_BYTES = 256 * 1024;
const KEPT_INTERVAL_MS = 60_000;
/** More than one day of checkpoints, stored up to twice. */
const MAX_LATEST_BYTES = 48 * 1024 * 1024;

/**
 * JSON lines. Appends every checkpoint to `<path>.latest`, which is rotated, and one a minute to `path`. Foreign lines are
 * ignored.
 */
export function checkpointFile(deps: Deps): CheckpointFile {
  const { path, signer, monotonicMs = () => performance.now(), files = { open, rename } } = deps;
  const { maxLatestBytes = MAX_LATEST_BYTES } = deps;
  const [latest, former] = [`${path}.latest`, `${path}.latest.1`];
  let keptAtMs = Number.NEGATIVE_INFINITY;

  async function appendLine(target: string, note: string): Promise<number> {
    const file = await files.open(target, "a+", 0o600);
    try {
      // A torn line must not swallow this one.
      const torn = !(await endsLine(file));
      await file.appendFile(`${torn ? "\n" : ""}${JSON.stringify({ type: "checkpoint", note })}\n`);
      await file.sync();
      return (await file.stat()).size;
    } finally {
      await file.close();
    }
  }

  return {
    async last() {
      const tails = await Promise.all([path, latest, former].map((each) => readTail(files.open, each)));
      const heads = tails
        .join("\n")
        .split("\n")
        .flatMap(noteOf)
        .flatMap((note) => signer.open(note) ?? []);
      return heads.reduce<TreeHead | undefined>(
        (largest, head) => (largest === undefined || head.size > largest.size ? head : largest),
        undefined,
      );
    },
    async append(note) {
      if ((await appendLine(latest, note)) > maxLatestBytes) await files.rename(latest, former);
      if (monotonicMs() - keptAtMs < KEPT_INTERVAL_MS) return;
      await appendLine(path, note);
      keptAtMs = monotonicMs();
    },
    async freeBytes() {
      const { bavail, bsize } = await statfs(dirname(path));
      return bavail * bsize;
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

async function readTail(openFile: typeof open, path: string): Promise<string> {
  const file = await openFile(path, "a+", 0o600);
  try {
    const { size } = await file.stat();
    const length = Math.min(size, TAIL_BYTES);
    const { buffer } = await file.read(Buffer.alloc(length), 0, length, size - length);
    return buffer.toString("utf8");
  } finally {
    await file.close();
  }
}

function noteOf(line: string): string[] {
  try {
    const { note } = JSON.parse(line) as { note?: unknown };
    return typeof note === "string" ? [note] : [];
  } catch {
    return [];
  }
}
