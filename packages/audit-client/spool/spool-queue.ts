import type { Logger } from "#kit/telemetry/logger.ts";
import type { RecorderMetrics } from "../stream/recorder-metrics.ts";
import type { Spool } from "./spool.ts";
import type { SpoolRecord } from "./spool-record.ts";

const RETRY_MS = 1_000;

/** Its entries are consecutive. */
export class SpoolQueue {
  readonly #spool: Spool;
  readonly #metrics: RecorderMetrics;
  readonly #logger: Logger;
  #range = { first: 1, last: 0 };
  #acknowledgedUpTo = 0;
  /** Undefined while the disk works. Monotonic milliseconds. */
  #failedMs: number | undefined;

  constructor(spool: Spool, metrics: RecorderMetrics, logger: Logger) {
    this.#spool = spool;
    this.#metrics = metrics;
    this.#logger = logger;
  }

  get first(): number {
    return this.#isEmpty ? Number.POSITIVE_INFINITY : this.#range.first;
  }

  get freeBytes(): number {
    return this.#spool.freeBytes;
  }

  get hasFailed(): boolean {
    return this.#failedMs !== undefined;
  }

  get mayWrite(): boolean {
    return this.#failedMs === undefined || performance.now() - this.#failedMs >= RETRY_MS;
  }

  get #isEmpty(): boolean {
    return this.#range.first > this.#range.last;
  }

  forgetFailure(): void {
    this.#failedMs = undefined;
  }

  /** Sequences must continue the last append. @throws the file system's error. */
  async append(records: readonly SpoolRecord[]): Promise<void> {
    try {
      await this.#spool.append(records);
    } catch (error) {
      this.#noteFailure(error);
      throw error;
    }
    if (this.hasFailed) this.#logger.info("the spool can be written again");
    this.#failedMs = undefined;
    if (this.#isEmpty) {
      this.#range.first = records[0]?.sequence ?? 0;
      this.#logger.warn("audit-service does not answer in time; entries are written to the spool");
    }
    this.#range.last = records.at(-1)?.sequence ?? 0;
    this.#metrics.spooled.inc(records.length);
    this.#release();
  }

  /** Also covers entries that are being written. */
  acknowledge(upTo: number): void {
    this.#acknowledgedUpTo = Math.max(this.#acknowledgedUpTo, upTo);
    this.#release();
  }

  async read(from: number, limit: number): Promise<SpoolRecord[] | undefined> {
    return this.#spool.read(from, limit).catch((error: unknown) => {
      this.#metrics.spoolErrors.inc();
      this.#logger.error({ err: error }, "the spool cannot be read; the read will be retried");
      return undefined;
    });
  }

  skip(to: number | undefined): void {
    this.#range.first = to ?? this.#range.last + 1;
  }

  #release(): void {
    const upTo = Math.min(this.#acknowledgedUpTo, this.#range.last);
    if (upTo < this.#range.first) return;
    this.#metrics.drained.inc(upTo + 1 - this.#range.first);
    this.#range.first = upTo + 1;
    if (this.#isEmpty) this.#logger.info("the spool is drained");
    this.#spool.release(upTo).catch((error: unknown) => {
      this.#metrics.spoolErrors.inc();
      this.#logger.error({ err: error }, "a spool file cannot be removed");
    });
  }

  #noteFailure(error: unknown): void {
    if (!this.hasFailed) {
      this.#logger.error({ err: error }, "the spool cannot be written; changing calls are refused");
    }
    this.#failedMs = performance.now();
    this.#metrics.spoolErrors.inc();
  }
}
