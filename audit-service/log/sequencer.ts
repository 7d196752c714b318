import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { withinDeadline } from "#kit/values/call-deadline.ts";
import type { CheckpointSigner, TreeHead } from "./checkpoint.ts";
import type { CheckpointFile } from "./checkpoint-file.ts";
import { type StoredCheckpoint, selectLastCheckpoint, selectOriginAmong } from "./checkpoint-store.ts";
import { selectTermState, tryLock, unlock } from "./sequencer-store.ts";
import { type Progress, Term } from "./sequencer-term.ts";
import { verifyHistory } from "./tree-proofs.ts";
import { selectSize } from "./tree-store.ts";

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

/** Entries get their number within 200 ms, the first after a rest within 700. */
export const SEQUENCER_INTERVAL_MS = 150;

const MAX_BATCH_ENTRIES = 2_000;
/** Less than the 3 s of the session. */
const FILE_TIMEOUT_MS = 1_000;
const REFUSED_INTERVAL_MS = 10_000;

interface Deps {
  /** Its session holds the lock, so it must not be shared. */
  sql: Sql;
  signer: CheckpointSigner;
  file: CheckpointFile | undefined;
  publish: (note: string, head: TreeHead) => void;
  onFileFailure: (error: unknown) => void;
  otherOrigins?: readonly string[];
  /** What log 0 says that this log has signed. @throws if it does not answer. */
  findNoted?: () => Promise<TreeHead | undefined>;
  now: () => Date;
  logger: Logger;
  maxBatchEntries?: number;
}

export interface SequencerStatus extends Progress {
  isSequencer: boolean;
  refusal: string | undefined;
}

/**
 * Numbers stored entries without gaps and signs their tree. A session lock selects one replica. If two believe to hold it,
 * only one can commit, because numbers are unique.
 */
export class Sequencer {
  readonly #deps: Deps;
  /** While this replica holds the lock. */
  #term: Term | undefined;
  /** Of this term, or the last. */
  #progress: Progress = {
    size: 0,
    checkpointSize: 0,
    numberedAt: undefined,
    checkpointAt: undefined,
    backlogEntries: 0,
  };
  #refusal: string | undefined;
  #refusedUntilMs = 0;
  /** Detects a restored backup even without a file. */
  #lastSigned: TreeHead | undefined;
  #isFileHung = false;

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  get status(): SequencerStatus {
    return { isSequencer: this.#term !== undefined, refusal: this.#refusal, ...this.#progress };
  }

  /** Returns true if there may be more to do. @throws the error that ended this term. */
  async step(): Promise<boolean> {
    try {
      this.#term ??= await this.#beginTerm();
      return this.#term === undefined ? false : await this.#work(this.#term);
    } catch (error) {
      await this.stop();
      throw error;
    }
  }

  /** The last signed head, while this replica is the sequencer. */
  get head(): TreeHead | undefined {
    return this.#term && this.#lastSigned;
  }

  async stop(): Promise<void> {
    this.#term = undefined;
    await unlock(this.#deps.sql).catch(() => undefined); // The lock ended with the connection.
  }

  async #work(term: Term): Promise<boolean> {
    const { isSequencer, writers } = await selectTermState(this.#deps.sql);
    if (isSequencer) return term.step(writers);
    this.#term = undefined;
    return true;
  }

  async #beginTerm(): Promise<Term | undefined> {
    const { sql, signer, now, logger, maxBatchEntries = MAX_BATCH_ENTRIES } = this.#deps;
    if (this.#refusal !== undefined) await this.#keepRefusing();
    if (performance.now() < this.#refusedUntilMs) return undefined;
    if (!(await tryLock(sql))) {
      this.#refusal = undefined;
      this.#progress.backlogEntries = 0; // It is another replica's now.
      return undefined;
    }
    const size = await selectSize(sql);
    const last = await selectLastCheckpoint(sql, signer.origin);
    if (!(await this.#fitsHistory(size, last))) return undefined;
    const publish = (note: string, head: TreeHead) => this.#publish(note, head);
    const deps = { sql, signer, publish, now, maxBatchEntries };
    if (last !== undefined) this.#lastSigned = { size: last.size, root: last.rootHash };
    const term = await Term.begin(deps, { ...this.#progress, size }, last);
    this.#progress = term.progress;
    logger.info({ size }, "this replica now numbers the audit log");
    return term;
  }

  async #fitsHistory(size: number, last: StoredCheckpoint | undefined): Promise<boolean> {
    const { sql, file, otherOrigins = [], findNoted, logger } = this.#deps;
    const noted = await findNoted?.();
    const other = otherOrigins.length === 0 ? undefined : await selectOriginAmong(sql, otherOrigins);
    this.#refusal = other && `its database has checkpoints of ${other}: LOGS_FILE gives it another number`;
    this.#refusal ??= await verifyHistory(sql, size, [
      { from: "the database's last checkpoint", head: last && { size: last.size, root: last.rootHash } },
      {
        from: "CHECKPOINT_FILE",
        head: file && (await withinDeadline(file.last(), FILE_TIMEOUT_MS)),
      },
      { from: "the last checkpoint of this process", head: this.#lastSigned },
      { from: "the checkpoint that log 0 has of it", head: noted },
    ]);
    if (this.#refusal === undefined) return true;
    // Another replica may know less, so the lock is kept.
    this.#refusedUntilMs = performance.now() + REFUSED_INTERVAL_MS;
    logger.error({ reason: this.#refusal }, "THE AUDIT LOG DOES NOT FIT ITS CHECKPOINTS: nothing is signed");
    return false;
  }

  /** Its query keeps the session, and so the lock, alive. */
  async #keepRefusing(): Promise<void> {
    const { isSequencer } = await selectTermState(this.#deps.sql);
    if (!isSequencer) this.#refusedUntilMs = 0;
  }

  async #publish(note: string, head: TreeHead): Promise<void> {
    this.#lastSigned = head;
    this.#deps.publish(note, head);
    await this.#writeToFile(note).catch(this.#deps.onFileFailure);
  }

  /** The mount may hang, so only one write waits. */
  async #writeToFile(note: string): Promise<void> {
    const { file } = this.#deps;
    if (file === undefined) return;
    if (this.#isFileHung) throw new Error("the previous write has not finished");
    this.#isFileHung = true;
    const written = file.append(note).finally(() => {
      this.#isFileHung = false;
    });
    await withinDeadline(written, FILE_TIMEOUT_MS);
  }
}
