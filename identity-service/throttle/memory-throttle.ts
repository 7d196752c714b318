import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import {
  type Admission,
  type Guess,
  ladderMemoryMs,
  ladderWaitMs,
  type Refusal,
  refusalOf,
  type Throttle,
  type ThrottleLimits,
} from "./throttle.ts";
import { type CountedBucket, createCounters } from "./throttle-counters.ts";
import { createTurns } from "./turns.ts";

/** About 50 MB when full. Beyond, what was longest untouched is forgotten. */
const MAX_KEYS = 200_000;

interface LadderState {
  failures: number;
  /** When the next attempt may come, in milliseconds since the epoch. */
  freeAtMs: number;
  endsAtMs: number;
  epoch: number;
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
  // What is counted here never leaves the process.
  const counters = createCounters(limits, randomBytes(32));
  const ladders = new LRUCache<string, LadderState>({ max: maxKeys });
  /** When a bucket will be full again, in milliseconds since the epoch. */
  const fullAtMs = new LRUCache<string, number>({ max: maxKeys });
  const epochs = new LRUCache<string, number>({ max: maxKeys });
  let lastEpoch = 0;
  const turns = createTurns();

  function ladderOf(key: string, epoch: number, nowMs: number): LadderState {
    const state = ladders.get(key);
    if (state !== undefined && state.endsAtMs > nowMs && state.epoch === epoch) return state;
    return { failures: 0, freeAtMs: 0, endsAtMs: 0, epoch };
  }

  /** Fills all, or none and says which has no room. */
  function fill(buckets: readonly CountedBucket[], nowMs: number): Refusal | undefined {
    const filled = buckets.map((each) => {
      const { budget, windowMs } = each.bucket;
      const fullAt = Math.max(fullAtMs.get(each.key) ?? 0, nowMs) + windowMs / budget;
      return { ...each, fullAt, waitMs: fullAt - nowMs - windowMs };
    });
    // A hair: the sums of fractions are not exact.
    const over = filled.filter(({ waitMs }) => waitMs > 0.001);
    if (over.length > 0) return refusalOf(over);
    for (const { key, fullAt } of filled) fullAtMs.set(key, fullAt);
    return undefined;
  }

  function pay(guess: Guess): void {
    for (const { key, bucket } of counters.ofGuess(guess).buckets) {
      const fullAt = fullAtMs.get(key);
      if (fullAt !== undefined) fullAtMs.set(key, fullAt - bucket.windowMs / bucket.budget);
    }
  }

  return {
    get size() {
      return ladders.size + fullAtMs.size + epochs.size;
    },

    turn: (guess, waitMs) => turns.take(counters.ofGuess(guess).turn, waitMs),

    async spend(call) {
      return fill(counters.ofCall(call), now()) ?? { kind: "admitted" };
    },

    async take(guess): Promise<Admission> {
      const nowMs = now();
      const counted = counters.ofGuess(guess);
      const refusal = fill(counted.buckets, nowMs);
      if (refusal !== undefined) return refusal;
      const epoch = epochs.get(counted.epoch) ?? 0;
      const states = counted.ladders.map(({ key, ladder }) => ({
        key,
        ladder,
        ...ladderOf(key, epoch, nowMs),
      }));
      if (states.some((state) => state.freeAtMs > nowMs)) return { kind: "locked" };
      let locksIfWrong = false;
      for (const { key, ladder, failures: before } of states) {
        const failures = before + 1;
        const waitMs = ladderWaitMs(ladder, failures);
        locksIfWrong ||= waitMs > 0;
        const endsAtMs = nowMs + ladderMemoryMs(ladder, failures);
        ladders.set(key, { failures, freeAtMs: nowMs + waitMs, endsAtMs, epoch });
      }
      return { kind: "admitted", ...(locksIfWrong && { locksIfWrong }) };
    },

    async succeed(guess) {
      for (const key of counters.ofGuess(guess).cleared) ladders.delete(key);
      pay(guess);
    },

    async giveBack(guess) {
      const counted = counters.ofGuess(guess);
      const epoch = epochs.get(counted.epoch) ?? 0;
      for (const { key, ladder } of counted.ladders) {
        const state = ladderOf(key, epoch, now());
        const failures = state.failures - 1;
        const freeAtMs = Math.min(state.freeAtMs, now() + ladderWaitMs(ladder, failures));
        if (failures <= 0) ladders.delete(key);
        else ladders.set(key, { ...state, failures, freeAtMs });
      }
      pay(guess);
    },

    async clear(account) {
      lastEpoch += 1;
      epochs.set(counters.epochOf(account), lastEpoch);
    },

    async forget(account) {
      for (const key of counters.ofAccount(account)) {
        ladders.delete(key);
        epochs.delete(key);
      }
    },

    async close() {
      ladders.clear();
      fullAtMs.clear();
      epochs.clear();
    },
  };
}
