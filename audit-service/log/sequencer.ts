import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { withinDeadline } from "#kit/values/within-deadline.ts";
import type { StoredEntry } from "../entries/entry-store.ts";
import type { CheckpointSigner, TreeHead } from "./checkpoint.ts";
import type { CheckpointFile } from "./checkpoint-file.ts";
import { selectFloor, selectLastCheckpoint } from "./checkpoint-store.ts";
import { FIRST_CHAIN_HASH } from "./leaf.ts";
import { growTree } from "./merkle-tree.ts";
import { monthOf, startOfMonth } from "./month.ts";
import { type LogEnd, numberEntries } from "./number-entries.ts";
import {
  type Floor,
  hasTransactionFromBefore,
  insertBatch,
  type SequencedBatch,
  selectLastPosition,
  selectSurroundings,
  selectUnnumbered,
  tryLock,
  unlock,
} from "./sequencer-store.ts";
import { compactRange } from "./tree-proofs.ts";
import { selectLeaf, selectSize } from "./tree-store.ts";
import { verifyHistory } from "./verify-history.ts";

/** The session ends after 3 s of silence, and with it the lock. */
export const SEQUENCER_SESSION = {
  idle_session_timeout: 3_000,
  idle_in_transaction_session_timeout: 3_000,
  tcp_user_timeout: 3_000,
  // Statistics of new tables may be wrong, and only one plan is fast.
  enable_hashjoin: "off",
  enable_mergejoin: "off",
  enable_seqscan: "off",
  jit: "off",
} as const;

/** Entries get their number within 200 ms. */
export const SEQUENCER_INTERVAL_MS = 150;

const MAX_BATCH_ENTRIES = 2_000;
/** Less than the 3 s of the session. */
const FILE_TIMEOUT_MS = 1_000;
const CHECKPOINT_INTERVAL_MS = 750;
const REFUSED_INTERVAL_MS = 10_000;

interface Deps {
  /** Its session holds the lock, so it must not be shared. */
  sql: Sql;
  signer: CheckpointSigner;
  file: CheckpointFile | undefined;
  publish: (note: string, head: TreeHead) => void;
  onFileFailure: (error: unknown) => void;
  now: () => Date;
  logger: Logger;
  maxBatchEntries?: number;
}

export interface Sequencer {
  /** Returns true if there may be more to do. @throws the error that ended this term. */
  step(): Promise<boolean>;
  stop(): Promise<void>;
  readonly status: SequencerStatus;
}

export interface SequencerStatus {
  isSequencer: boolean;
  refusal: string | undefined;
  size: number;
  checkpointSize: number;
  numberedAt: Date | undefined;
  checkpointAt: Date | undefined;
  /** At most one batch. */
  backlogEntries: number;
}

interface Term {
  end: LogEnd;
  /** No more entries can appear up to here. */
  floor: Floor;
  /** Becomes the floor when its `writers` are gone. */
  ahead: Floor & { writers: ReadonlySet<string> | undefined };
  /** Of the last numbered entry, or 0. */
  month: number;
  checkpointSize: number;
}

interface NextEntries {
  entries: StoredEntry[];
  isAll: boolean;
  /** First unnumbered position of any month. */
  lowest: bigint;
}

/**
 * Numbers stored entries without gaps and signs their tree. A session lock selects one replica. If two believe to hold it,
 * only one can commit, because numbers are unique.
 */
export function createSequencer(deps: Deps): Sequencer {
  const { sql, signer, file, logger, now, maxBatchEntries = MAX_BATCH_ENTRIES } = deps;
  let term: Term | undefined;
  let refusedUntilMs = 0;
  /** Detects a restored backup even without a file. */
  let lastSigned: TreeHead | undefined;
  let isFileHung = false;
  const status: SequencerStatus = {
    isSequencer: false,
    refusal: undefined,
    size: 0,
    checkpointSize: 0,
    numberedAt: undefined,
    checkpointAt: undefined,
    backlogEntries: 0,
  };

  async function step(): Promise<boolean> {
    try {
      term ??= await beginTerm();
      return term === undefined ? false : await work(term);
    } catch (error) {
      endTerm();
      await unlock(sql).catch(() => undefined); // The lock ended with the connection.
      throw error;
    }
  }

  function endTerm(): void {
    term = undefined;
    status.isSequencer = false;
  }

  async function beginTerm(): Promise<Term | undefined> {
    if (status.refusal !== undefined) await keepRefusing();
    if (performance.now() < refusedUntilMs) return undefined;
    if (!(await tryLock(sql))) {
      status.refusal = undefined;
      return undefined;
    }
    const size = await selectSize(sql);
    const last = await selectLastCheckpoint(sql, signer.origin);
    status.refusal = await verifyHistory(sql, size, [
      { from: "the database's last checkpoint", head: last && { size: last.size, root: last.rootHash } },
      {
        from: "CHECKPOINT_FILE",
        head: file && (await withinDeadline(file.last(), FILE_TIMEOUT_MS)),
      },
      { from: "the last checkpoint of this process", head: lastSigned },
    ]);
    if (status.refusal !== undefined) {
      // Another replica may know less, so the lock is kept.
      refusedUntilMs = performance.now() + REFUSED_INTERVAL_MS;
      logger.error(
        { reason: status.refusal },
        "THE AUDIT LOG DOES NOT FIT ITS CHECKPOINTS: nothing is signed",
      );
      return undefined;
    }
    const leaf = await selectLeaf(sql, size);
    const floor = { position: await selectFloor(sql), sequence: 0 };
    Object.assign(status, {
      isSequencer: true,
      size,
      checkpointSize: last?.size ?? 0,
      checkpointAt: last?.createdAt,
    });
    logger.info({ size }, "this replica now numbers the audit log");
    return {
      end: {
        tree: growTree(size, await compactRange(sql, size)),
        chainHash: leaf?.chainHash ?? FIRST_CHAIN_HASH,
      },
      floor,
      ahead: { ...floor, writers: undefined },
      month: leaf === undefined ? 0 : monthOf(leaf.receivedAt),
      checkpointSize: last?.size ?? 0,
    };
  }

  /** Its query keeps the session, and so the lock, alive. */
  async function keepRefusing(): Promise<void> {
    const { isSequencer } = await selectSurroundings(sql);
    if (!isSequencer) refusedUntilMs = 0;
  }

  async function work(current: Term): Promise<boolean> {
    const { isSequencer, writers } = await selectSurroundings(sql);
    if (!isSequencer) {
      endTerm();
      return true;
    }
    const { ahead } = current;
    const isSettled = settle(ahead, writers);
    const { entries, isAll, lowest } = await nextEntries(current);
    status.backlogEntries = entries.length;
    const batch: SequencedBatch = numberEntries(current.end, entries);
    const signed = sign(current);
    if (entries.length > 0 || signed !== undefined) await insertBatch(sql, { ...batch, checkpoint: signed });
    afterCommit(current, entries);
    if (signed !== undefined) await publish(current, signed);
    if (isSettled && (isAll || lowest > ahead.position)) {
      current.floor = { position: ahead.position, sequence: ahead.sequence };
      current.ahead = { ...(await nextFloor(current, entries, isAll)), writers: undefined };
    }
    return entries.length > 0 && !isAll;
  }

  /** In a backlog the floor advances with each batch. Otherwise each step would read the numbered entries again. */
  async function nextFloor(
    { end, floor }: Term,
    entries: readonly StoredEntry[],
    isAll: boolean,
  ): Promise<Floor> {
    if (isAll) return { position: await selectLastPosition(sql), sequence: end.tree.size };
    return { position: entries.at(-1)?.position ?? floor.position, sequence: floor.sequence };
  }

  /** Returns entries of one month only, so that retention can remove a month as one range of numbers. */
  async function nextEntries({ floor, month }: Term): Promise<NextEntries> {
    const entries = await selectUnnumbered(sql, floor, maxBatchEntries, undefined);
    const isAll = entries.length < maxBatchEntries;
    const lowest = entries[0]?.position ?? floor.position;
    const later = entries.map(({ entry }) => monthOf(entry.receivedAt)).filter((each) => each > month);
    if (later.length === 0) return { entries, isAll, lowest };
    const next = Math.min(...later);
    const boundary = startOfMonth(next);
    const mayStillCome = await hasTransactionFromBefore(sql, boundary);
    const before = await selectUnnumbered(sql, floor, maxBatchEntries, boundary);
    if (before.length > 0 || mayStillCome) return { entries: before, isAll: false, lowest };
    const ofNext = entries.filter(({ entry }) => monthOf(entry.receivedAt) === next);
    return { entries: ofNext, isAll: isAll && ofNext.length === entries.length, lowest };
  }

  function sign(current: Term): NonNullable<SequencedBatch["checkpoint"]> | undefined {
    const { tree } = current.end;
    const isNew = tree.size > current.checkpointSize;
    const sinceMs = now().getTime() - (status.checkpointAt?.getTime() ?? 0);
    if (!isNew || (sinceMs >= 0 && sinceMs < CHECKPOINT_INTERVAL_MS)) return undefined;
    const head = { size: tree.size, root: tree.root() };
    return {
      origin: signer.origin,
      size: head.size,
      rootHash: head.root,
      note: signer.checkpoint(head, now()),
      floorPosition: current.floor.position,
    };
  }

  function afterCommit(current: Term, entries: readonly StoredEntry[]): void {
    status.size = current.end.tree.size;
    if (entries.length === 0) return;
    status.numberedAt = now();
    current.month = Math.max(current.month, ...entries.map(({ entry }) => monthOf(entry.receivedAt)));
  }

  async function publish(current: Term, { size, rootHash, note }: NonNullable<SequencedBatch["checkpoint"]>) {
    lastSigned = { size, root: rootHash };
    current.checkpointSize = size;
    Object.assign(status, { checkpointSize: size, checkpointAt: now() });
    deps.publish(note, lastSigned);
    await writeToFile(note).catch(deps.onFileFailure);
  }

  /** The mount may hang, so only one write waits. */
  async function writeToFile(note: string): Promise<void> {
    if (file === undefined) return;
    if (isFileHung) throw new Error("the previous write has not finished");
    isFileHung = true;
    const written = file.append(note).finally(() => {
      isFileHung = false;
    });
    await withinDeadline(written, FILE_TIMEOUT_MS);
  }

  return {
    step,
    async stop() {
      endTerm();
      await unlock(sql).catch(() => undefined);
    },
    status,
  };
}

function settle(ahead: Term["ahead"], writers: ReadonlySet<string>): boolean {
  ahead.writers = ahead.writers === undefined ? writers : ahead.writers.intersection(writers);
  return ahead.writers.size === 0;
}
