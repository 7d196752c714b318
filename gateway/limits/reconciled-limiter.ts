import type { SharedRedis } from "#kit/redis/shared-redis.ts";
import { type Entry, MemorySource } from "#rate-limit/memory-source.ts";
import { RedisSource } from "#rate-limit/redis-source.ts";
import { type Bucket, type LimitScope, sharesOf, type Verdict, verdictOf } from "./bucket.ts";
import { storedKey } from "./call-limiter.ts";

const EXCHANGE_MS = 100;
/** The others wait for the next exchange. */
const MAX_REPORTED = 1_000;

export interface ReconciledLimiterOptions {
  /** Undefined for a single gateway. */
  redis: SharedRedis | undefined;
  /** Gateways that share the limits without Redis. */
  replicas: number;
  now?: () => number;
  maxEntries?: number;
}

/**
 * Limits calls from memory, and exchanges the counts with the other gateways through Redis ten times a second.
 * Until then they overshoot: G gateways allow at most G times a bucket's burst at once. Afterwards all calls
 * are counted, so the rate is exact over time.
 * Counts from an outage of Redis are not reported later, because each gateway then has only its share.
 */
export class ReconciledLimiter {
  readonly #redis: SharedRedis | undefined;
  readonly #shared: RedisSource<Bucket> | undefined;
  readonly #replicas: number;
  readonly #now: () => number;
  readonly #source: MemorySource;
  /** Buckets used since the last exchange, or reported in it, to learn what others reported meanwhile. */
  readonly #due = new Map<Entry, LimitScope>();
  /** Runs while a bucket is in use. */
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #isExchanging = false;

  constructor({ redis, replicas, now = () => performance.now(), maxEntries }: ReconciledLimiterOptions) {
    this.#redis = redis;
    this.#shared = redis && new RedisSource<Bucket>({ redis, keyOf: storedKey });
    this.#replicas = replicas;
    this.#now = now;
    this.#source = new MemorySource(maxEntries);
  }

  get size(): number {
    return this.#source.size;
  }

  take(buckets: readonly Bucket[]): Verdict {
    if (!this.#isClosed) this.#timer ??= setInterval(() => this.#tick(), EXCHANGE_MS).unref();
    const decisions =
      this.#redis?.isConnected === true
        ? this.#source.spend(buckets, this.#now(), this.#noteUnreported)
        : this.#source.spend(sharesOf(buckets, this.#replicas), this.#now());
    return verdictOf(buckets, decisions);
  }

  /** One exchange at a time. Never throws. */
  async exchange(): Promise<void> {
    this.#source.sweep(this.#now());
    if (this.#shared === undefined || this.#isExchanging || this.#due.size === 0) return;
    this.#isExchanging = true;
    const reported = [...this.#due].slice(0, MAX_REPORTED);
    const costs = reported.map(([entry, scope]) => {
      const { kind, name, unreportedMs: ms } = entry;
      entry.unreportedMs = 0;
      this.#due.delete(entry);
      // Once more: gateways that used it at the same time may report later.
      if (ms > 0) this.#due.set(entry, scope);
      return { key: storedKey({ kind, name, scope }), ms };
    });
    const aheadsMs = await this.#shared.add(costs);
    this.#isExchanging = false;
    if (aheadsMs === undefined) return;
    const nowMs = this.#now();
    for (const [index, [entry]] of reported.entries()) {
      // Adds what was counted here meanwhile. A Redis that lost its data must not move a TAT back.
      const tatMs = nowMs + (aheadsMs[index] ?? 0) + entry.unreportedMs;
      entry.tatMs = Math.max(entry.tatMs, tatMs);
    }
  }

  close(): void {
    this.#isClosed = true;
    clearInterval(this.#timer);
  }

  #tick(): void {
    void this.exchange();
    if (this.size > 0 || this.#due.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  readonly #noteUnreported = (entry: Entry, { scope, limit }: Bucket): void => {
    if (entry.unreportedMs === 0) this.#due.set(entry, scope);
    entry.unreportedMs += limit.emissionIntervalMs;
  };
}
