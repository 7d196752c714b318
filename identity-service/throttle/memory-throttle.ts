import { randomBytes } from "node:crypto";
import type { LRUCache } from "lru-cache";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import { createTurns } from "#kit/values/turns.ts";
import { MemorySource } from "#rate-limit/memory-source.ts";
import {
  type Admission,
  type CostlyCall,
  type Guess,
  ladderMemoryMs,
  ladderWaitMs,
  type Refusal,
  type RightLogin,
  refusalOf,
  type Throttle,
  type ThrottleLimits,
  type WrongPassword,
} from "./throttle.ts";
import { type CountedBudget, ThrottleCounters } from "./throttle-counters.ts";

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
export class MemoryThrottle implements Throttle {
  readonly #now: () => number;
  readonly #counters: ThrottleCounters;
  readonly #ladders: LRUCache<string, LadderState>;
  readonly #epochs: LRUCache<string, number>;
  readonly #source: MemorySource;
  readonly #turns = createTurns();
  #lastEpoch = 0;

  constructor({ limits, now, maxKeys = MAX_KEYS }: MemoryThrottleOptions) {
    this.#now = now;
    this.#counters = new ThrottleCounters(limits, randomBytes(32));
    this.#ladders = boundedCache(maxKeys);
    this.#epochs = boundedCache(maxKeys);
    this.#source = new MemorySource(maxKeys);
  }

  get size(): number {
    return this.#ladders.size + this.#source.size + this.#epochs.size;
  }

  turn(guess: Guess, waitMs: number): Promise<() => void> {
    return this.#turns.take(this.#counters.ofGuess(guess).turn, waitMs);
  }

  async spend(call: CostlyCall | RightLogin | WrongPassword): Promise<{ kind: "admitted" } | Refusal> {
    return this.#spend(this.#counters.ofCall(call)) ?? { kind: "admitted" };
  }

  async take(guess: Guess): Promise<Admission> {
    const nowMs = this.#now();
    const counted = this.#counters.ofGuess(guess);
    const refusal = this.#spend(counted.budgets);
    if (refusal !== undefined) return refusal;
    const epoch = this.#epochOf(counted.epoch);
    const states = counted.ladders.map(({ key, ladder }) => ({
      key,
      ladder,
      ...this.#ladderOf(key, epoch, nowMs),
    }));
    if (states.some((state) => state.freeAtMs > nowMs)) return { kind: "locked" };
    let locksIfWrong = false;
    for (const { key, ladder, failures: before } of states) {
      const failures = before + 1;
      const waitMs = ladderWaitMs(ladder, failures);
      locksIfWrong ||= waitMs > 0;
      const endsAtMs = nowMs + ladderMemoryMs(ladder, failures);
      this.#ladders.set(key, { failures, freeAtMs: nowMs + waitMs, endsAtMs, epoch });
    }
    return { kind: "admitted", ...(locksIfWrong && { locksIfWrong }) };
  }

  async succeed(guess: Guess): Promise<void> {
    const { budgets, cleared } = this.#counters.ofGuess(guess);
    for (const key of cleared) this.#ladders.delete(key);
    this.#source.refund(budgets);
  }

  async giveBack(guess: Guess): Promise<void> {
    const nowMs = this.#now();
    const counted = this.#counters.ofGuess(guess);
    const epoch = this.#epochOf(counted.epoch);
    for (const { key, ladder } of counted.ladders) {
      const state = this.#ladderOf(key, epoch, nowMs);
      const failures = state.failures - 1;
      const freeAtMs = Math.min(state.freeAtMs, nowMs + ladderWaitMs(ladder, failures));
      if (failures <= 0) this.#ladders.delete(key);
      else this.#ladders.set(key, { ...state, failures, freeAtMs });
    }
    this.#source.refund(counted.budgets);
  }

  async lockedUntil(account: string): Promise<number | undefined> {
    const nowMs = this.#now();
    const [key, epoch] = this.#counters.ofAccount(account);
    const { freeAtMs } = this.#ladderOf(key, this.#epochOf(epoch), nowMs);
    return freeAtMs > nowMs ? freeAtMs : undefined;
  }

  async clear(account: string): Promise<void> {
    this.#lastEpoch += 1;
    this.#epochs.set(this.#counters.epochOf(account), this.#lastEpoch);
  }

  async forget(account: string): Promise<void> {
    for (const key of this.#counters.ofAccount(account)) {
      this.#ladders.delete(key);
      this.#epochs.delete(key);
    }
  }

  async close(): Promise<void> {
    this.#ladders.clear();
    this.#source.clear();
    this.#epochs.clear();
  }

  #spend(budgets: readonly CountedBudget[]): Refusal | undefined {
    return refusalOf(budgets, this.#source.spend(budgets, this.#now()));
  }

  #epochOf(key: string): number {
    return this.#epochs.get(key) ?? 0;
  }

  #ladderOf(key: string, epoch: number, nowMs: number): LadderState {
    const state = this.#ladders.get(key);
    if (state !== undefined && state.endsAtMs > nowMs && state.epoch === epoch) return state;
    return { failures: 0, freeAtMs: 0, endsAtMs: 0, epoch };
  }
}
