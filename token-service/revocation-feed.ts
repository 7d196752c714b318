import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Sql } from "../service-kit/postgres.ts";
import { withinDeadline } from "../service-kit/within-deadline.ts";
import { RevocationSet } from "../token-client/revocation-set.ts";
import type { RevocationBell } from "./revocation-bell.ts";
import {
  LOG_BEGIN,
  type LogPosition,
  type LogRead,
  type Revocation,
  readRevocations,
  type VerificationKey,
} from "./revocation-store.ts";
import { accessTokenLifeS, MAX_ACCESS_TTL_S, retiredKeyLifeS } from "./token-lifetimes.ts";

export interface RevocationBatch {
  revocations: readonly Revocation[];
  /** The watcher knows the log up to here once `caughtUp`. */
  position: LogPosition;
  caughtUp: boolean;
  /** From the start of the watch to that of this read. */
  elapsedMs: number;
  /** Database time. */
  readAt: Date;
  /** The same array until the accepted keys change. */
  keys: readonly VerificationKey[];
}

export interface RevocationFeedOptions {
  sql: Sql;
  bell: RevocationBell;
  logger: Logger;
  accessTtlS: number;
  /** Runs before the read counts as complete. */
  onKeyRevoked: (keyId: string) => void;
  onKeys: (keys: readonly VerificationKey[]) => void;
  /** Monotonic clock. */
  nowMs?: () => number;
}

/** Also a heartbeat. */
const POLL_INTERVAL_MS = 500;
/** Without a read. */
const STALE_AFTER_MS = 3_000;
const READ_TIMEOUT_MS = 1_000;
const MAX_BATCH = 500;
/** Limits the effect of a wrong `expires_at`. */
const MAX_KEEP_S = accessTokenLifeS(MAX_ACCESS_TTL_S);

/** By a monotonic clock: a step of a wall clock must not drop an entry. */
export class RevocationFeed {
  readonly #options: RevocationFeedOptions;
  readonly #nowMs: () => number;
  readonly #known = new RevocationSet(Number.POSITIVE_INFINITY);
  #entries: { revocation: Revocation; untilMs: number }[] = [];
  #head = LOG_BEGIN;
  #keys: readonly VerificationKey[] = [];
  #readAt = new Date(0);
  #readAtMs = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | undefined;
  #queued: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #waiting = new Set<() => void>();

  constructor(options: RevocationFeedOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? (() => performance.now());
  }

  /** @throws if the first read fails. */
  async start(): Promise<void> {
    await this.refresh();
    this.#options.bell.onRing(() => this.#refreshQuietly());
    this.#timer = setInterval(() => this.#refreshQuietly(), POLL_INTERVAL_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  announce(): void {
    this.#options.bell.ring();
    this.#refreshQuietly();
  }

  isSessionRevoked(sessionId: string): boolean {
    return this.#known.hasSession(sessionId);
  }

  isKeyRevoked(keyId: string): boolean {
    return this.#known.hasKey(keyId);
  }

  /** Since the start of the last successful read. */
  get lagMs(): number {
    return this.#nowMs() - this.#readAtMs;
  }

  /** @throws {DomainError} `service_unavailable` while the log may have unread entries. */
  assertFresh(): void {
    if (this.lagMs <= STALE_AFTER_MS) return;
    throw new DomainError("service_unavailable", "The revocation log cannot be read", {
      retryAfterMs: 1_000,
    });
  }

  /** The read starts after the call. */
  refresh(): Promise<void> {
    if (this.#running === undefined) {
      this.#running = this.#read().finally(() => {
        this.#running = undefined;
      });
      return this.#running;
    }
    this.#queued ??= this.#running
      .catch(() => undefined) // Its own callers get that error.
      .then(() => {
        this.#queued = undefined;
        return this.refresh();
      });
    return this.#queued;
  }

  /** The batch is empty for a read without new entries. */
  async *watch(after: LogPosition, signal: AbortSignal): AsyncGenerator<RevocationBatch> {
    const beganMs = this.#nowMs();
    await this.refresh();
    let position = after;
    while (!signal.aborted) {
      // A restore or fail-over lost entries.
      if (!this.#continues(position)) position = LOG_BEGIN;
      const index = this.#indexAfter(position.sequence);
      const revocations = this.#entries.slice(index, index + MAX_BATCH).map(({ revocation }) => revocation);
      const last = revocations.at(-1);
      const caughtUp = last === undefined || revocations.length < MAX_BATCH;
      position = caughtUp ? this.#head : { sequence: last.sequence, tip: last.tip };
      const elapsedMs = Math.max(0, this.#readAtMs - beganMs);
      yield { revocations, position, caughtUp, elapsedMs, readAt: this.#readAt, keys: this.#keys };
      if (caughtUp) await this.#nextRead(signal);
    }
  }

  /** Deleted entries count as missing. */
  #continues({ sequence, tip }: LogPosition): boolean {
    if (sequence > this.#head.sequence) return false;
    if (tip === "") return true;
    if (sequence === this.#head.sequence) return tip === this.#head.tip;
    const entry = this.#entries[this.#indexAfter(sequence) - 1]?.revocation;
    return entry?.sequence === sequence && entry.tip === tip;
  }

  #indexAfter(sequence: number): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#entries[middle]?.revocation.sequence ?? 0) > sequence) high = middle;
      else low = middle + 1;
    }
    return low;
  }

  #nextRead(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        this.#waiting.delete(wake);
        signal.removeEventListener("abort", wake);
        resolve();
      };
      this.#waiting.add(wake);
      signal.addEventListener("abort", wake);
    });
  }

  async #read(): Promise<void> {
    const startedMs = this.#nowMs();
    // A silent connection must not block later reads.
    const { sql, accessTtlS } = this.#options;
    const reading = readRevocations(sql, this.#head, retiredKeyLifeS(accessTtlS));
    const read = await withinDeadline(reading, READ_TIMEOUT_MS);
    this.#take(read);
    this.#readAtMs = startedMs;
    this.#options.onKeys(this.#keys);
    for (const wake of [...this.#waiting]) wake();
  }

  #take({ head, isContinued, revocations, keys, readAt }: LogRead): void {
    if (!isContinued) {
      this.#options.logger.warn(
        { head: head.sequence, known: this.#head.sequence },
        "the revocation log has lost entries: it was read from the beginning",
      );
      this.#entries = [];
    }
    const nowMs = this.#nowMs();
    this.#forgetEnded(nowMs);
    for (const revocation of revocations) this.#apply(revocation, nowMs);
    this.#head = head;
    this.#readAt = readAt;
    if (JSON.stringify(keys) !== JSON.stringify(this.#keys)) this.#keys = keys;
  }

  #apply(revocation: Revocation, nowMs: number): void {
    const leastS = accessTokenLifeS(this.#options.accessTtlS);
    const keepS = Math.min(Math.max(leastS, revocation.remainingS), MAX_KEEP_S);
    const untilMs = nowMs + keepS * 1_000;
    this.#entries.push({ revocation, untilMs });
    if (revocation.sessionId !== null) {
      this.#known.addSession(revocation.sessionId, untilMs);
      return;
    }
    this.#known.addKey(revocation.keyId, untilMs);
    this.#options.onKeyRevoked(revocation.keyId);
  }

  #forgetEnded(nowMs: number): void {
    this.#known.forgetEnded(nowMs);
    // Entries are in order of receipt.
    const firstLiving = this.#entries.findIndex(({ untilMs }) => untilMs >= nowMs);
    if (firstLiving !== 0) this.#entries = firstLiving < 0 ? [] : this.#entries.slice(firstLiving);
  }

  #refreshQuietly(): void {
    this.refresh().catch((error: unknown) => {
      this.#options.logger.warn({ err: error }, "the revocation log cannot be read");
    });
  }
}
