import type { Logger } from "#kit/telemetry/logger.ts";
import { withCallDeadline, withinDeadline } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import { RevocationSet } from "#token-client/revocation-set.ts";
import { SLOTS } from "#token-client/session-slot.ts";
import type { RevocationBell } from "./revocation-bell.ts";
import {
  type HeldSlots,
  type KnownLog,
  LOG_BEGIN,
  type LogPosition,
  type LogRead,
  type Revocation,
  type VerificationKey,
} from "./revocation-store.ts";
import { accessTokenLifeS, MAX_ACCESS_TTL_S } from "./token-lifetimes.ts";

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
  /** The same object until they change. */
  slots: HeldSlots;
}

export interface RevocationFeedOptions {
  /** The page that follows the newest of the known positions that the log has. */
  read: (known: KnownLog) => Promise<LogRead>;
  /** Of the logs of all parts. It has no maximum. */
  known?: RevocationSet;
  bell: RevocationBell;
  logger: Logger;
  accessTtlS: number;
  /** Runs before the read counts as complete. */
  onKeyRevoked: (keyId: string) => void;
  onKeys: (keys: readonly VerificationKey[]) => void;
  /** Monotonic clock. */
  nowMs?: () => number;
}

/** Serves as a heartbeat, too. */
const POLL_INTERVAL_MS = 500;
/** Counts while no read succeeds. */
const STALE_AFTER_MS = 3_000;
const PAGE_TIMEOUT_MS = 1_000;
/** Of entries that a fail-over lost: their watchers go on where the log was cut. */
const MAX_LOST = 10_000;
const MAX_BATCH = 500;
/** Limits the effect of a wrong `expires_at`. */
const MAX_KEEP_S = accessTokenLifeS(MAX_ACCESS_TTL_S);

const NO_SLOTS: HeldSlots = { changes: -1, bits: Buffer.alloc(SLOTS / 8) };

/** By a monotonic clock: a step of a wall clock must not drop an entry. */
export class RevocationFeed {
  readonly #options: RevocationFeedOptions;
  readonly #nowMs: () => number;
  readonly #known: RevocationSet;
  /** In order of receipt, and of their numbers. */
  #entries: Revocation[] = [];
  /** The log is known up to here: its head, if `#isComplete`. */
  #position = LOG_BEGIN;
  #isComplete = false;
  /** By tip: the number that its log was cut to. */
  readonly #lost = new Map<string, number>();
  #keys: readonly VerificationKey[] = [];
  #slots = NO_SLOTS;
  #readAt = new Date(0);
  #readAtMs = Number.NEGATIVE_INFINITY;
  #running: Promise<void> | undefined;
  #queued: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #waiting = new Set<() => void>();

  constructor(options: RevocationFeedOptions) {
    this.#options = options;
    this.#known = options.known ?? new RevocationSet(Number.POSITIVE_INFINITY);
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

  /** @returns whether this part had the slot at the newest read. */
  holds(slot: number): boolean {
    return ((this.#slots.bits[slot >>> 3] ?? 0) & (0x80 >>> (slot & 7))) !== 0;
  }

  /** Counted from the start of the last successful read. */
  get lagMs(): number {
    return this.#nowMs() - this.#readAtMs;
  }

  /** Whether every entry older than 3 s has been read. */
  get isFresh(): boolean {
    return this.lagMs <= STALE_AFTER_MS;
  }

  /** @throws {DomainError} `service_unavailable` while the log may have unread entries. */
  assertFresh(): void {
    if (this.isFresh) return;
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

  /** The batch is empty for a read without new entries. @param options.waits for a log that cannot be read, instead of an error. */
  async *watch(
    after: LogPosition,
    signal: AbortSignal,
    { waits = false }: { waits?: boolean } = {},
  ): AsyncGenerator<RevocationBatch> {
    const beganMs = this.#nowMs();
    await (waits ? this.refresh().catch(() => this.#nextRead(signal)) : this.refresh());
    let position = after;
    while (!signal.aborted) {
      position = this.#continued(position);
      const index = this.#indexAfter(position.sequence);
      const revocations = this.#entries.slice(index, index + MAX_BATCH);
      const last = revocations.at(-1);
      const isEnd = last === undefined || revocations.length < MAX_BATCH;
      position = isEnd ? this.#position : { sequence: last.sequence, tip: last.tip };
      const caughtUp = isEnd && this.#isComplete;
      const elapsedMs = Math.max(0, this.#readAtMs - beganMs);
      const newest = { readAt: this.#readAt, keys: this.#keys, slots: this.#slots };
      yield { revocations, position, caughtUp, elapsedMs, ...newest };
      if (isEnd) await this.#nextRead(signal);
    }
  }

  /** After a restore or fail-over that lost entries: where the log was cut, or its begin. Deleted entries count as missing. */
  #continued(position: LogPosition): LogPosition {
    const { sequence, tip } = position;
    const cutTo = this.#lost.get(tip);
    if (cutTo !== undefined) return { sequence: cutTo, tip: "" };
    if (sequence > this.#position.sequence) return LOG_BEGIN;
    if (tip === "") return position;
    if (sequence === this.#position.sequence) return tip === this.#position.tip ? position : LOG_BEGIN;
    const entry = this.#entries[this.#indexAfter(sequence) - 1];
    return entry?.sequence === sequence && entry.tip === tip ? position : LOG_BEGIN;
  }

  #indexAfter(sequence: number): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#entries[middle]?.sequence ?? 0) > sequence) high = middle;
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

  /** Page by page, each with a deadline of its own. */
  async #read(): Promise<void> {
    let startedMs: number;
    do {
      startedMs = this.#nowMs();
      // The call's deadline takes it out of the pool's queue; a silent connection must not block later reads.
      const known = { positions: this.#marks(), slotChanges: this.#slots.changes };
      const page = withCallDeadline(Date.now() + PAGE_TIMEOUT_MS, () => this.#options.read(known));
      this.#take(await withinDeadline(page, PAGE_TIMEOUT_MS));
    } while (!this.#isComplete);
    this.#readAtMs = startedMs;
    this.#options.onKeys(this.#keys);
    for (const wake of [...this.#waiting]) wake();
  }

  /** Ever further apart: if the newest entries are lost, at most as many others are read again. */
  #marks(): LogPosition[] {
    const marks = [this.#position];
    for (let back = 1; back <= this.#entries.length; back *= 2) {
      const entry = this.#entries.at(-back);
      if (entry && entry.tip !== "") marks.push({ sequence: entry.sequence, tip: entry.tip });
    }
    return [...marks, LOG_BEGIN];
  }

  #take({ after, position, isHead, revocations, keys, slots, readAt }: LogRead): void {
    const nowMs = this.#nowMs();
    if (after < this.#position.sequence) this.#cut(after);
    this.#forgetEnded(nowMs);
    for (const revocation of revocations)
      this.#apply(revocation, nowMs, revocation.expiresAtS - readAt.getTime() / 1_000);
    this.#position = position;
    this.#isComplete = isHead;
    this.#readAt = readAt;
    this.#slots = slots ?? this.#slots;
    if (JSON.stringify(keys) !== JSON.stringify(this.#keys)) this.#keys = keys;
  }

  /** Their sessions and keys stay refused. */
  #cut(after: number): void {
    const lost = this.#entries.splice(this.#indexAfter(after));
    const facts = { known: this.#position.sequence, continued: after };
    this.#options.logger.warn(
      facts,
      "the revocation log has lost entries: it is read again from before them",
    );
    const tips = [...lost.slice(-MAX_LOST).map(({ tip }) => tip), this.#position.tip];
    for (const tip of tips) if (tip !== "") this.#lost.set(tip, after);
    for (const [tip, cutTo] of this.#lost) {
      if (this.#lost.size > MAX_LOST) this.#lost.delete(tip);
      else if (cutTo > after) this.#lost.set(tip, after);
    }
  }

  #apply(revocation: Revocation, nowMs: number, remainingS: number): void {
    const leastS = accessTokenLifeS(this.#options.accessTtlS);
    const keepS = Math.min(Math.max(leastS, remainingS), MAX_KEEP_S);
    const untilMs = nowMs + keepS * 1_000;
    this.#entries.push(revocation);
    if (revocation.sessionId !== null) {
      this.#known.addSession(revocation.sessionId, untilMs);
      return;
    }
    this.#known.addKey(revocation.keyId, untilMs);
    this.#options.onKeyRevoked(revocation.keyId);
  }

  #forgetEnded(nowMs: number): void {
    this.#known.forgetEnded(nowMs);
    const firstLiving = this.#entries.findIndex(({ sessionId, keyId }) =>
      sessionId === null ? this.#known.hasKey(keyId) : this.#known.hasSession(sessionId),
    );
    this.#entries.splice(0, firstLiving < 0 ? this.#entries.length : firstLiving);
  }

  #refreshQuietly(): void {
    this.refresh().catch((error: unknown) => {
      this.#options.logger.warn({ err: error }, "the revocation log cannot be read");
    });
  }
}
