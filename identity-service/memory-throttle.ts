import { LRUCache } from "lru-cache";
import {
  type Admission,
  accountKey,
  countersOf,
  type Guess,
  LADDER_MEMORY_MS,
  ladderWaitMs,
  type Throttle,
  type ThrottleLimits,
} from "./throttle.ts";

/** About 50 MB when full. Beyond, what was longest untouched is forgotten. */
const MAX_KEYS = 200_000;

interface LadderState {
  failures: number;
  /** When the next attempt may come, in milliseconds since the epoch. */
  freeAtMs: number;
  endsAtMs: number;
}

export interface MemoryThrottleOptions {
  limits: ThrottleLimits;
  /** Milliseconds since the epoch. */
  now: () => number;
  /** Accounts' counters kept, and networks' counters kept. */
  maxKeys?: number;
}

/** For a single replica, or for one that cannot reach Redis. Forgets everything with its process. */
export function createMemoryThrottle(options: MemoryThrottleOptions): Throttle & { readonly size: number } {
  const { limits, now, maxKeys = MAX_KEYS } = options;
  const ladders = new LRUCache<string, LadderState>({ max: maxKeys });
  /** When a bucket will be full again, in milliseconds since the epoch. */
  const fullAtMs = new LRUCache<string, number>({ max: maxKeys });

  function ladderOf(key: string, nowMs: number): LadderState {
    const state = ladders.get(key);
    if (state !== undefined && state.endsAtMs > nowMs) return state;
    return { failures: 0, freeAtMs: 0, endsAtMs: 0 };
  }

  function pay(guess: Guess): void {
    for (const { key, bucket } of countersOf(limits, guess).buckets) {
      const fullAt = fullAtMs.get(key);
      if (fullAt !== undefined) fullAtMs.set(key, fullAt - bucket.windowMs / bucket.budget);
    }
  }

  return {
    get size() {
      return ladders.size + fullAtMs.size;
    },

    async take(guess): Promise<Admission> {
      const nowMs = now();
      const counters = countersOf(limits, guess);
      const filled = counters.buckets.map(({ key, bucket }) => {
        const fullAt = Math.max(fullAtMs.get(key) ?? 0, nowMs) + bucket.windowMs / bucket.budget;
        return { key, fullAt, waitMs: fullAt - nowMs - bucket.windowMs };
      });
      const waitMs = Math.max(...filled.map((counter) => counter.waitMs));
      // A hair: the sums of fractions are not exact.
      if (waitMs > 0.001) return { kind: "refused", retryAfterMs: Math.ceil(waitMs) };
      for (const { key, fullAt } of filled) fullAtMs.set(key, fullAt);
      const states = counters.ladders.map(({ key, ladder }) => ({ key, ladder, ...ladderOf(key, nowMs) }));
      if (states.some((state) => state.freeAtMs > nowMs)) return { kind: "locked" };
      for (const { key, ladder, failures } of states) {
        ladders.set(key, {
          failures: failures + 1,
          freeAtMs: nowMs + ladderWaitMs(ladder, failures + 1),
          endsAtMs: nowMs + LADDER_MEMORY_MS,
        });
      }
      return { kind: "admitted" };
    },

    async succeed(guess) {
      for (const key of countersOf(limits, guess).cleared) ladders.delete(key);
      pay(guess);
    },

    async giveBack(guess) {
      for (const { key, ladder } of countersOf(limits, guess).ladders) {
        const state = ladders.get(key);
        if (state === undefined) continue;
        const failures = state.failures - 1;
        const freeAtMs = Math.min(state.freeAtMs, now() + ladderWaitMs(ladder, failures));
        if (failures <= 0) ladders.delete(key);
        else ladders.set(key, { ...state, failures, freeAtMs });
      }
      pay(guess);
    },

    async clear(account) {
      ladders.delete(accountKey(account));
    },

    async close() {
      ladders.clear();
      fullAtMs.clear();
    },
  };
}
