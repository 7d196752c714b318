import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "../telemetry/logger.ts";
import { type Repetition, repeat } from "../telemetry/repeat.ts";
import { backOffMs } from "../values/back-off.ts";
import type { Claim } from "./outbox-store.ts";

export interface Backlog {
  count?: number;
  /** Undefined without waiting rows. */
  oldest?: Date | undefined;
}

export interface OutboxWorkerOptions<Row extends { id: string }, Receipt> {
  /** For logs: `mail`. */
  what: string;
  pollIntervalMs: number;
  /** Longer than `deliver` may take. */
  leaseMs: number;
  maxBatch: number;
  claim(lease: Pick<Claim, "leaseMs" | "limit">): Promise<Row[]>;
  /** Repeated if this process dies before `mark`. @param signal aborts at the end of a stop. */
  deliver(row: Row, signal: AbortSignal): Promise<Receipt>;
  mark(row: Row, receipt: Receipt): Promise<void>;
  /** Without it, a failed row is due again after its lease. */
  onFailure?(row: Row, error: unknown): Promise<void>;
  /** @returns how many old rows it deleted, at most `limit`. */
  forget?(limit: number): Promise<number>;
  backlog(): Promise<Backlog>;
  now: () => Date;
  logger: Logger;
}

/** Limits a poll. The next one follows at once. */
const MAX_BATCHES = 20;
const FORGET_INTERVAL_MS = 60_000;
const MAX_FORGOTTEN = 1_000;
const MIN_MARK_PAUSE_MS = 200;
const MAX_MARK_PAUSE_MS = 2_000;
/** For running deliveries. */
const STOP_GRACE_MS = 2_000;

/** Delivers each row at least once. Replicas may share an outbox. */
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

  get backlogCount(): number {
    return this.#backlog.count ?? 0;
  }

  /** 0 without waiting rows. */
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

  wake(): void {
    this.#polling?.runSoon();
  }

  async stop(): Promise<void> {
    this.#isStopping = true;
    const timer = setTimeout(() => this.#cut.abort(), STOP_GRACE_MS);
    await Promise.all([this.#polling?.stop(), this.#forgetting?.stop()]);
    clearTimeout(timer);
  }

  /** Stops at a failure, because the receiver may be unavailable. */
  async poll(): Promise<void> {
    let isMore = true;
    for (let batch = 0; isMore && batch < MAX_BATCHES && !this.#isStopping; batch += 1) {
      isMore = await this.#deliverBatch();
    }
    this.#backlog = await this.#options.backlog();
    if (isMore) this.wake();
  }

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

  /** Never throws. @returns false if the row waits for the end of its lease. */
  async #deliver(row: Row, leaseEndMs: number): Promise<boolean> {
    let receipt: Receipt;
    try {
      receipt = await this.#options.deliver(row, this.#cut.signal);
    } catch (error) {
      return this.#settleFailure(row, error);
    }
    return this.#mark(row, receipt, leaseEndMs);
  }

  /** Retries, so that a short database failure causes no second delivery. */
  async #mark(row: Row, receipt: Receipt, leaseEndMs: number): Promise<boolean> {
    const { what, mark, logger } = this.#options;
    for (let attempt = 1; ; attempt += 1) {
      const pauseMs = backOffMs({ attempt, firstMs: MIN_MARK_PAUSE_MS, maxMs: MAX_MARK_PAUSE_MS });
      try {
        await mark(row, receipt);
        return true;
      } catch (error) {
        if (performance.now() + pauseMs >= leaseEndMs || this.#cut.signal.aborted) {
          logger.error(
            { err: error, outbox: what, id: row.id },
            "delivered but not marked; it will be delivered again",
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
      logger.warn({ err: error, ...facts }, "not delivered; it will be retried");
      return false;
    }
    try {
      await onFailure(row, error);
      return true;
    } catch (cause) {
      logger.warn({ err: cause, ...facts }, "a failed delivery could not be recorded");
      return false;
    }
  }
}
