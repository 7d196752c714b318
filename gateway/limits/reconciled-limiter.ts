import { type Entry, MemorySource } from "../../rate-limit/memory-source.ts";
import { RedisSource } from "../../rate-limit/redis-source.ts";
import type { SharedRedis } from "../../service-kit/shared-redis.ts";
import { type Bucket, type LimitScope, sharesOf, type Verdict, verdictOf } from "./bucket.ts";
import { storedKey } from "./call-limiter.ts";

/** How often gateways reconcile their counts. */
const EXCHANGE_MS = 100;
/** Buckets in one exchange; the others wait for the next. */
const MAX_REPORTED = 1_000;

export interface ReconciledLimiterOptions {
  /** Undefined: this gateway is alone with its share. */
  redis: SharedRedis | undefined;
  /** Gateways that share the limits while Redis is away. */
  replicas: number;
  now?: () => number;
  maxEntries?: number;
}

/**
 * Limits calls from memory, without a wait. Ten times a second, off the path of requests, it adds what it has counted to
 * Redis and learns what the other gateways have counted. What they do not know yet is the overshoot: of one bucket, G
 * gateways let at most G times its calls through at once. Afterwards all of them are counted, so that over time the rate
 * is exact: callers wait for the excess.
 *
 * What could not be reported because Redis was away is not reported later: while it is away no gateway takes more than its
 * share.
 */
export class ReconciledLimiter {
  readonly #redis: SharedRedis | undefined;
  readonly #shared: RedisSource<Bucket> | undefined;
  readonly #replicas: number;
  readonly #now: () => number;
  readonly #source: MemorySource;
  /** Used since the last exchange, or reported in it: then it is asked once more what the others have reported meanwhile. */
  readonly #due = new Map<Entry, LimitScope>();
  readonly #timer: NodeJS.Timeout;
  #isExchanging = false;

  constructor({ redis, replicas, now = () => performance.now(), maxEntries }: ReconciledLimiterOptions) {
    this.#redis = redis;
    this.#shared = redis && new RedisSource<Bucket>({ redis, keyOf: storedKey });
    this.#replicas = replicas;
    this.#now = now;
    this.#source = new MemorySource(maxEntries);
    this.#timer = setInterval(() => void this.exchange(), EXCHANGE_MS);
    this.#timer.unref();
  }

  /** Buckets in memory. */
  get size(): number {
    return this.#source.size;
  }

  /** Counts a call in all of the buckets, or in none if one has no room. */
  take(buckets: readonly Bucket[]): Verdict {
    const decisions =
      this.#redis?.isConnected === true
        ? this.#source.spend(buckets, this.#now(), this.#noteUnreported)
        : this.#source.spend(sharesOf(buckets, this.#replicas), this.#now());
    return verdictOf(buckets, decisions);
  }

  /** Reports what was counted here and takes in what the others have counted. One at a time. Never throws. */
  async exchange(): Promise<void> {
    this.#source.sweep(this.#now());
    if (this.#shared === undefined || this.#isExchanging || this.#due.size === 0) return;
    this.#isExchanging = true;
    const reported = [...this.#due].slice(0, MAX_REPORTED);
    const costs = reported.map(([entry, scope]) => {
      const { kind, name, unreportedMs: ms } = entry;
      entry.unreportedMs = 0;
      this.#due.delete(entry);
      // Again, at the end of the line: gateways that used it at the same time may report after this one.
      if (ms > 0) this.#due.set(entry, scope);
      return { key: storedKey({ kind, name, scope }), ms };
    });
    const aheadsMs = await this.#shared.add(costs);
    this.#isExchanging = false;
    if (aheadsMs === undefined) return;
    const nowMs = this.#now();
    for (const [index, [entry]] of reported.entries()) {
      // What was counted here meanwhile comes on top. A Redis that has lost its data moves no TAT back.
      const tatMs = nowMs + (aheadsMs[index] ?? 0) + entry.unreportedMs;
      entry.tatMs = Math.max(entry.tatMs, tatMs);
    }
  }

  close(): void {
    clearInterval(this.#timer);
  }

  readonly #noteUnreported = (entry: Entry, { scope, limit }: Bucket): void => {
    if (entry.unreportedMs === 0) this.#due.set(entry, scope);
    entry.unreportedMs += limit.emissionIntervalMs;
  };
}
