import { randomBytes } from "node:crypto";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import { createTurns } from "#kit/values/turns.ts";
import { MemorySource } from "#rate-limit/memory-source.ts";
import {
  type Admission,
  ladderMemoryMs,
  ladderWaitMs,
  refusalOf,
  type Throttle,
  type ThrottleLimits,
} from "./throttle.ts";
import { type CountedBudget, createCounters } from "./throttle-counters.ts";

/** About 50 MB when full. */
const MAX_KEYS = 200_000;

interface LadderState {
  failures: number;
  freeAtMs: number;
  endsAtMs: number;
  epoch: number;
}

export interface MemoryThrottleOptions {
  limits: ThrottleLimits;
  /** Milliseconds since the epoch. */
  now: () => number;
  maxKeys?: number;
}

/** For one replica, or while Redis is away. */
export function createMemoryThrottle(options: MemoryThrottleOptions): Throttle & { readonly size: number } {
  const { limits, now, maxKeys = MAX_KEYS } = options;
  const counters = createCounters(limits, randomBytes(32));
  const ladders = boundedCache<string, LadderState>(maxKeys);
  const source = new MemorySource(maxKeys);
  const epochs = boundedCache<string, number>(maxKeys);
  let lastEpoch = 0;
  const turns = createTurns();

  function ladderOf(key: string, epoch: number, nowMs: number): LadderState {
    const state = ladders.get(key);
    if (state !== undefined && state.endsAtMs > nowMs && state.epoch === epoch) return state;
    return { failures: 0, freeAtMs: 0, endsAtMs: 0, epoch };
  }

  const spend = (budgets: readonly CountedBudget[]) => refusalOf(budgets, source.spend(budgets, now()));

  return {
    get size() {
      return ladders.size + source.size + epochs.size;
    },

    turn: (guess, waitMs) => turns.take(counters.ofGuess(guess).turn, waitMs),

    async spend(call) {
      return spend(counters.ofCall(call)) ?? { kind: "admitted" };
    },

    async take(guess): Promise<Admission> {
      const nowMs = now();
      const counted = counters.ofGuess(guess);
      const refusal = spend(counted.budgets);
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
      const { budgets, cleared } = counters.ofGuess(guess);
      for (const key of cleared) ladders.delete(key);
      source.refund(budgets);
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
      source.refund(counted.budgets);
    },

    async lockedUntil(account) {
      const [key, epoch] = counters.ofAccount(account);
      const { freeAtMs } = ladderOf(key, epochs.get(epoch) ?? 0, now());
      return freeAtMs > now() ? freeAtMs : undefined;
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
      source.clear();
      epochs.clear();
    },
  };
}
