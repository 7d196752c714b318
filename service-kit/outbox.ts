import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "./logger.ts";
import type { Claim } from "./outbox-store.ts";
import { type Repetition, repeat } from "./repeat.ts";

/** What waits in an outbox. */
export interface Backlog {
  count?: number;
  /** When the oldest row came about; undefined if none waits. */
  oldest?: Date | undefined;
}

export interface OutboxWorkerOptions<Row extends { id: string }, Receipt> {
  /** What is delivered, for logs: `mail`. */
  what: string;
  pollIntervalMs: number;
  /** Longer than `deliver` may take. */
  leaseMs: number;
  /** Rows that are delivered at once. */
  maxBatch: number;
  /** Takes rows that are due; `claimDue` of the store. */
  claim(lease: Pick<Claim, "leaseMs" | "limit">): Promise<Row[]>;
  /**
   * Resolves once the receiver has taken the row. The receiver gets the same row again if this process dies before it is
   * marked.
   *
   * @param signal is aborted when the process stops and cannot wait any longer.
   */
  deliver(row: Row, signal: AbortSignal): Promise<Receipt>;
  /** Writes down that the row was delivered. */
  mark(row: Row, receipt: Receipt): Promise<void>;
  /** Writes down what becomes of a row that was not delivered. Without it, the row is due again when its lease ends. */
  onFailure?(row: Row, error: unknown): Promise<void>;
  /** Deletes rows that are long done. @returns how many, at most `limit`. */
  forget?(limit: number): Promise<number>;
  backlog(): Promise<Backlog>;
  now: () => Date;
  logger: Logger;
}

/** A poll delivers no more; the next one follows at once. */
const MAX_BATCHES = 20;
const FORGET_INTERVAL_MS = 60_000;
const MAX_FORGOTTEN = 1_000;
const MIN_MARK_PAUSE_MS = 200;
const MAX_MARK_PAUSE_MS = 2_000;
/** How long deliveries that are under way may take when the process stops. */
const STOP_GRACE_MS = 2_000;

/**
 * Delivers the rows of an outbox, each at least once: a row is written in the transaction of its cause, claimed for the time
 * of a lease, delivered, and marked. Any number of replicas may work on the same outbox.
 */
export class OutboxWorker<Row extends { id: string }, Receipt = void> {
  readonly #options: OutboxWorkerOptions<Row, Receipt>;
  readonly #cut = new AbortController();
  #isStopping = false;
  #polling: Repetition | undefined;
  #forgetting: Repetition | undefined;
  #backlog: Backlog = {};

  constructor(options: OutboxWorkerOptions<Row, Receipt>) {
    this.#options = options;
  }

  /** How many rows waited at the last poll. */
  get backlogCount(): number {
    return this.#backlog.count ?? 0;
  }

  /** Age of the row that was the oldest at the last poll; 0 if none waited. */
  get oldestAgeS(): number {
    const { oldest } = this.#backlog;
    return oldest === undefined ? 0 : Math.max(0, this.#options.now().getTime() - oldest.getTime()) / 1_000;
  }

  start(): void {
    const { what, pollIntervalMs, forget, logger } = this.#options;
    this.#polling = repeat(what, pollIntervalMs, () => this.poll(), logger);
    if (forget === undefined) return;
    this.#forgetting = repeat(`${what} clean-up`, FORGET_INTERVAL_MS, () => this.cleanUp(), logger);
  }

  /** There is something to deliver. */
  wake(): void {
    this.#polling?.runSoon();
  }

  /** Claims no more; deliveries that are under way get two seconds. */
  async stop(): Promise<void> {
    this.#isStopping = true;
    const timer = setTimeout(() => this.#cut.abort(), STOP_GRACE_MS);
    await Promise.all([this.#polling?.stop(), this.#forgetting?.stop()]);
    clearTimeout(timer);
  }

  /** Delivers what is due. A batch with a failure is the last one: the receiver may be away. */
  async poll(): Promise<void> {
    let isMore = true;
    for (let batch = 0; isMore && batch < MAX_BATCHES && !this.#isStopping; batch += 1) {
      isMore = await this.#deliverBatch();
    }
    this.#backlog = await this.#options.backlog();
    if (isMore) this.wake();
  }

  /** Deletes rows that are long done. */
  async cleanUp(): Promise<void> {
    const { forget } = this.#options;
    if (forget === undefined) return;
    for (let batch = 0; batch < MAX_BATCHES; batch += 1) {
      if ((await forget(MAX_FORGOTTEN)) < MAX_FORGOTTEN) return;
    }
  }

  /** @returns whether more may be due. */
  async #deliverBatch(): Promise<boolean> {
    const { claim, leaseMs, maxBatch } = this.#options;
    const leaseEndMs = performance.now() + leaseMs;
    const rows = await claim({ leaseMs, limit: maxBatch });
    const settled = await Promise.all(rows.map((row) => this.#deliver(row, leaseEndMs)));
    return rows.length === maxBatch && !settled.includes(false);
  }

  /** Never throws. @returns false if the row is left until its lease ends. */
  async #deliver(row: Row, leaseEndMs: number): Promise<boolean> {
    let receipt: Receipt;
    try {
      receipt = await this.#options.deliver(row, this.#cut.signal);
    } catch (error) {
      return this.#settleFailure(row, error);
    }
    return this.#mark(row, receipt, leaseEndMs);
  }

  /** Tries as long as the lease lasts: a database that is away for a moment causes no second delivery. */
  async #mark(row: Row, receipt: Receipt, leaseEndMs: number): Promise<boolean> {
    const { what, mark, logger } = this.#options;
    for (let pauseMs = MIN_MARK_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_MARK_PAUSE_MS)) {
      try {
        await mark(row, receipt);
        return true;
      } catch (error) {
        if (performance.now() + pauseMs >= leaseEndMs || this.#cut.signal.aborted) {
          logger.error(
            { err: error, outbox: what, id: row.id },
            "delivered but not marked; it is delivered again",
          );
          return false;
        }
      }
      await sleep(pauseMs, undefined, { signal: this.#cut.signal }).catch(() => undefined);
    }
  }

  async #settleFailure(row: Row, error: unknown): Promise<boolean> {
    const { what, onFailure, logger } = this.#options;
    const facts = { outbox: what, id: row.id };
    if (onFailure === undefined) {
      logger.warn({ err: error, ...facts }, "not delivered; it is tried again");
      return false;
    }
    try {
      await onFailure(row, error);
      return true;
    } catch (cause) {
      logger.warn({ err: cause, ...facts }, "a failed delivery could not be written down");
      return false;
    }
  }
}
