import { type Checkpoint, readHead } from "./checkpoint.ts";
import { logNumberOf } from "./log-number.ts";
import type { LoggedEntry } from "./logged-entry.ts";
import { HASH_BYTES } from "./merkle.ts";
import type { VerifierKey } from "./signed-note.ts";
import { Spool } from "./spool.ts";

const ACTION = "audit.checkpoint_noted";
const PRODUCER = "audit-service";
/** Size, sequence and root. */
const ROOT_AT = 16;
const RECORD_BYTES = ROOT_AT + HASH_BYTES;
const BLOCK_RECORDS = 4_096;
const MAX_RUNS = 16;

export interface NotedCheckpoint extends Checkpoint {
  /** A checkpoint from outside proves the entry that notes it. */
  isTrusted: boolean;
}

/** What an entry of log 0 notes. */
interface Note {
  log: number;
  size: number;
  root: Buffer;
}

interface Run {
  spool: Spool;
  records: number;
  lastSize: number;
}

export function isNote({ action, producer }: LoggedEntry): boolean {
  return action === ACTION && producer === PRODUCER;
}

/** Undefined: not of a log with these keys, or of another form. @param keys Of log 0. */
export function readNote({ resource, reason }: LoggedEntry, keys: readonly VerifierKey[]): Note | undefined {
  const [log, head] = [logNumberOf(resource, keys), readHead(reason)];
  return log === undefined || log === 0 || head === undefined ? undefined : { log, ...head };
}

/** What log 0 notes of one other log, in files. */
export class NotedCheckpoints {
  /** The first entry that notes one has it. */
  readonly firstSequence: number;
  /** Each with ascending sizes: a few, because two replicas may note at once, or one again after a break. */
  readonly #runs: Run[] = [];
  #isUnordered = false;

  constructor(firstSequence: number) {
    this.firstSequence = firstSequence;
  }

  /** Sizes run back so often that not all were kept. */
  get isUnordered(): boolean {
    return this.#isUnordered;
  }

  append(sequence: number, { size, root }: Note): void {
    const run = this.#runs.find(({ lastSize }) => lastSize <= size) ?? this.#addRun();
    if (run === undefined) return;
    const record = Buffer.allocUnsafe(RECORD_BYTES);
    record.writeBigUInt64BE(BigInt(size));
    record.writeBigUInt64BE(BigInt(sequence), 8);
    root.copy(record, ROOT_AT);
    run.spool.append(record);
    run.records += 1;
    run.lastSize = size;
  }

  /**
   * In the order of sizes. Once; `append` must not follow.
   * @param upTo What is proven of log 0, and what by checkpoints from outside.
   */
  *inOrder(upTo: { proven: number; trusted: number }): Generator<NotedCheckpoint> {
    const heads = this.#runs.map(nextOf);
    for (;;) {
      let first = -1;
      for (const [index, head] of heads.entries())
        if (head !== undefined && head.size < (heads[first]?.size ?? Number.POSITIVE_INFINITY)) first = index;
      const head = heads[first];
      if (head === undefined) return;
      heads[first] = nextOf(this.#runs[first] as Run);
      const { size, sequence, root } = head;
      const isTrusted = sequence <= upTo.trusted;
      if (sequence <= upTo.proven) yield { size, root, time: `entry ${sequence} of log 0`, isTrusted };
    }
  }

  close(): void {
    for (const { spool } of this.#runs) spool.close();
  }

  #addRun(): Run | undefined {
    this.#isUnordered = this.#runs.length === MAX_RUNS;
    if (this.#isUnordered) return undefined;
    const run = { spool: new Spool(RECORD_BYTES, BLOCK_RECORDS), records: 0, lastSize: 0 };
    this.#runs.push(run);
    return run;
  }
}

function nextOf(run: Run): { size: number; sequence: number; root: Buffer } | undefined {
  if (run.records === 0) return undefined;
  run.records -= 1;
  const record = run.spool.next();
  const [size, sequence] = [Number(record.readBigUInt64BE()), Number(record.readBigUInt64BE(8))];
  return { size, sequence, root: record.subarray(ROOT_AT) };
}
