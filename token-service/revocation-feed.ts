import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Sql } from "../service-kit/postgres.ts";
import { withinDeadline } from "../service-kit/within-deadline.ts";
import type { RevocationBell } from "./revocation-bell.ts";
import { type Revocation, readRevocations } from "./revocation-store.ts";

/** A part of the log for one watcher. */
export interface RevocationBatch {
  revocations: readonly Revocation[];
  /** The watcher knows everything up to this number once `caughtUp`. */
  sequence: number;
  caughtUp: boolean;
}

export interface RevocationFeedOptions {
  sql: Sql;
  bell: RevocationBell;
  logger: Logger;
  now: () => Date;
  /** Called for each banned key, before the feed counts as having read it. */
  onKeyRevoked: (keyId: string) => void;
}

/** How often the log is read when nobody rings; also the heartbeat of the watchers. */
const POLL_INTERVAL_MS = 500;
/** Without a successful read for this long, what is in memory proves nothing any more. */
const STALE_AFTER_MS = 3_000;
const READ_TIMEOUT_MS = 1_000;
const MAX_BATCH = 500;

/** The unexpired part of the revocation log in memory, following the database. */
export class RevocationFeed {
  readonly #options: RevocationFeedOptions;
  readonly #sessions = new Map<string, number>();
  readonly #keys = new Map<string, number>();
  #entries: Revocation[] = [];
  #head = 0;
  #readAtMs = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | undefined;
  #queued: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #waiting = new Set<() => void>();

  constructor(options: RevocationFeedOptions) {
    this.#options = options;
  }

  /** Reads the whole log, then follows it. @throws if the first read fails. */
  async start(): Promise<void> {
    await this.refresh();
    this.#options.bell.onRing(() => this.#refreshQuietly());
    this.#timer = setInterval(() => this.#refreshQuietly(), POLL_INTERVAL_MS);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** After a commit: this replica reads now, and the others are told to. */
  announce(): void {
    this.#options.bell.ring();
    this.#refreshQuietly();
  }

  isSessionRevoked(sessionId: string): boolean {
    return this.#sessions.has(sessionId);
  }

  isKeyRevoked(keyId: string): boolean {
    return this.#keys.has(keyId);
  }

  /** Milliseconds since the start of the last read that succeeded. */
  get lagMs(): number {
    return performance.now() - this.#readAtMs;
  }

  /** @throws {DomainError} `service_unavailable` while the log may have grown unseen. */
  assertFresh(): void {
    if (this.lagMs <= STALE_AFTER_MS) return;
    throw new DomainError("service_unavailable", "The revocation log cannot be read", {
      retryAfterMs: 1_000,
    });
  }

  /** Reads the log once more; the read begins after the call. */
  refresh(): Promise<void> {
    if (this.#running === undefined) {
      this.#running = this.#read().finally(() => {
        this.#running = undefined;
      });
      return this.#running;
    }
    this.#queued ??= this.#running
      .catch(() => undefined) // whoever waits for that read learns of it; this is the next one
      .then(() => {
        this.#queued = undefined;
        return this.refresh();
      });
    return this.#queued;
  }

  /**
   * The log after a number: first what exists, then what comes, and an empty batch at each successful read in
   * between (at least every 500 ms while the database answers, and never while it does not).
   */
  async *watch(afterSequence: number, signal: AbortSignal): AsyncGenerator<RevocationBatch> {
    await this.refresh();
    let position = afterSequence;
    while (!signal.aborted) {
      // A head behind the watcher means that the database was restored from a backup: tell everything again.
      if (position > this.#head) position = 0;
      const revocations = this.#after(position);
      const last = revocations.at(-1);
      const caughtUp = last === undefined || revocations.length < MAX_BATCH;
      position = caughtUp ? this.#head : last.sequence;
      yield { revocations, sequence: position, caughtUp };
      if (caughtUp) await this.#nextRead(signal);
    }
  }

  #after(position: number): Revocation[] {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#entries[middle]?.sequence ?? 0) > position) high = middle;
      else low = middle + 1;
    }
    return this.#entries.slice(low, low + MAX_BATCH);
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
    const startedMs = performance.now();
    const now = this.#options.now();
    let { head, revocations } = await this.#readAfter(this.#head, now);
    if (head < this.#head) {
      this.#options.logger.warn(
        { head, known: this.#head },
        "the revocation log is shorter than it was: reading it anew",
      );
      this.#entries = [];
      ({ head, revocations } = await this.#readAfter(0, now));
    }
    this.#forgetExpired(now.getTime());
    for (const revocation of revocations) this.#apply(revocation);
    this.#head = head;
    this.#readAtMs = startedMs;
    for (const wake of [...this.#waiting]) wake();
  }

  /** Never longer than this: a connection that went silent must not keep all later reads waiting. */
  #readAfter(sequence: number, now: Date): ReturnType<typeof readRevocations> {
    return withinDeadline(readRevocations(this.#options.sql, sequence, now), READ_TIMEOUT_MS);
  }

  #apply(revocation: Revocation): void {
    this.#entries.push(revocation);
    const endMs = revocation.expiresAt.getTime();
    if (revocation.sessionId !== null) {
      this.#sessions.set(revocation.sessionId, endMs);
      return;
    }
    this.#keys.set(revocation.keyId, endMs);
    this.#options.onKeyRevoked(revocation.keyId);
  }

  #forgetExpired(nowMs: number): void {
    // Ends rise with the sequence, because each is its commit's time plus a constant: stop at the first live one.
    let expired = 0;
    for (const entry of this.#entries) {
      if (entry.expiresAt.getTime() > nowMs) break;
      expired += 1;
      if (entry.sessionId === null) this.#keys.delete(entry.keyId);
      else this.#sessions.delete(entry.sessionId);
    }
    if (expired > 0) this.#entries = this.#entries.slice(expired);
  }

  #refreshQuietly(): void {
    this.refresh().catch((error: unknown) => {
      this.#options.logger.warn({ err: error }, "the revocation log cannot be read");
    });
  }
}
