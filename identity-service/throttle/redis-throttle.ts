import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { RedisSettings } from "#kit/redis/redis-settings.ts";
import { openSharedRedis, type SharedRedis } from "#kit/redis/shared-redis.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { createTurns, tooLong } from "#kit/values/turns.ts";
import { decisionsOf, limitArguments, RedisSource } from "#rate-limit/redis-source.ts";
import { MemoryThrottle } from "./memory-throttle.ts";
import { giveBackScript, ladderArguments, takeScript } from "./redis-ladders.ts";
import {
  type Admission,
  type CostlyCall,
  type Guess,
  LADDER_MEMORY_MS,
  type Refusal,
  type RightLogin,
  refusalOf,
  shareOf,
  type Throttle,
  type ThrottleLimits,
  type WrongPassword,
} from "./throttle.ts";
import { budgetKey, type CountedBudget, ThrottleCounters } from "./throttle-counters.ts";

export interface RedisThrottleOptions extends RedisSettings {
  limits: ThrottleLimits;
  /** Names the counters. 32 bytes, the same in every replica. */
  secret: Buffer;
  replicas: number;
  /** Milliseconds since the epoch. */
  now: () => number;
  /** As `now`, of a clock that never steps: for what is counted here while Redis is away. Default: `now`. */
  localNow?: () => number;
  logger: Logger;
  metrics: Metrics;
  /** Default: 150. */
  answerTimeoutMs?: number;
}

/** The braces put all keys into one slot, as scripts need in a cluster. */
const KEY_PREFIX = "gatehouse:{throttle}:";
const stored = (key: string) => KEY_PREFIX + key;
/** Longer than an attempt, which may crash. */
const TURN_LEASE_MS = 3_000;
/** Only the first waiter of each replica polls. */
const TURN_POLL_MS = 20;
/** Not yet cleared in Redis. */
const MAX_UNSENT = 1_000;

/** Only if the turn is still this attempt's. */
const END_TURN =
  "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

/** While Redis is away, each replica counts alone with its share of the limits. */
export class RedisThrottle implements Throttle {
  readonly #now: () => number;
  readonly #counters: ThrottleCounters;
  readonly #local: MemoryThrottle;
  readonly #redis: SharedRedis;
  readonly #source: RedisSource<CountedBudget>;
  readonly #turns = createTurns();
  readonly #unsent = new Set<string>();

  constructor(options: RedisThrottleOptions) {
    const { limits, secret, replicas, now, localNow = now, metrics } = options;
    this.#now = now;
    this.#counters = new ThrottleCounters(limits, secret);
    this.#local = new MemoryThrottle({ limits: shareOf(limits, replicas), now: localNow });
    this.#redis = openSharedRedis({
      ...options,
      name: "gatehouse-throttle",
      what: "logins are throttled",
      onAnswer: () => this.#sendUnsent(),
    });
    this.#source = new RedisSource({
      redis: this.#redis,
      keyOf: (budget: CountedBudget) => stored(budgetKey(budget)),
      now,
    });
    metrics.gauge(
      "gatehouse_throttle_shared",
      "1 while logins are throttled by all replicas together.",
      [],
      (gauge) => gauge.set(this.#redis.isConnected ? 1 : 0),
    );
  }

  async turn(guess: Guess, waitMs: number): Promise<() => void> {
    const untilMs = performance.now() + waitMs;
    const { turn } = this.#counters.ofGuess(guess);
    const done = await this.#turns.take(turn, waitMs);
    const id = randomUUID();
    if (!(await this.#lease(stored(turn), id, untilMs))) {
      done();
      throw tooLong();
    }
    return () => void this.#redis.ask((client) => client.eval(END_TURN, 1, stored(turn), id)).finally(done);
  }

  async spend(call: CostlyCall | RightLogin | WrongPassword): Promise<{ kind: "admitted" } | Refusal> {
    const budgets = this.#counters.ofCall(call);
    const decisions = await this.#source.spend(budgets);
    if (decisions === undefined) return this.#local.spend(call);
    return refusalOf(budgets, decisions) ?? { kind: "admitted" };
  }

  async take(guess: Guess): Promise<Admission> {
    const { budgets, epoch, ladders } = this.#counters.ofGuess(guess);
    const keys = [...budgets.map(budgetKey), epoch, ...ladders.map(({ key }) => key)];
    const given = [this.#now(), budgets.length, ...limitArguments(budgets), ...ladderArguments(ladders)];
    const answer = await this.#redis.ask((client) => takeScript(client, keys.map(stored), given));
    if (answer === undefined) return this.#local.take(guess);
    const [kind, ...rest] = answer as [kind: string, ...rest: unknown[]];
    if (kind === "locked") return { kind };
    if (kind === "admitted") return { kind, ...(rest[0] === 1 && { locksIfWrong: true }) };
    const refusal = refusalOf(budgets, decisionsOf(budgets, rest as string[]));
    if (refusal === undefined) throw new Error("the script refused what the budgets allow");
    return refusal;
  }

  async succeed(guess: Guess): Promise<void> {
    const { budgets, cleared } = this.#counters.ofGuess(guess);
    await Promise.all([
      this.#source.refund(budgets),
      this.#redis.ask((client) => client.del(...cleared.map(stored))),
      // The attempt may have been counted here while Redis was away.
      this.#local.succeed(guess),
    ]);
  }

  async giveBack(guess: Guess): Promise<void> {
    const { budgets, epoch, ladders } = this.#counters.ofGuess(guess);
    const keys = [epoch, ...ladders.map(({ key }) => key)].map(stored);
    await Promise.all([
      this.#source.refund(budgets),
      this.#redis.ask((client) => giveBackScript(client, keys, [this.#now(), ...ladderArguments(ladders)])),
      this.#local.giveBack(guess),
    ]);
  }

  async lockedUntil(account: string): Promise<number | undefined> {
    const [key, epochKey] = this.#counters.ofAccount(account).map(stored) as [string, string];
    const state = await this.#redis.ask((client) =>
      Promise.all([client.hmget(key, "at", "epoch"), client.get(epochKey)]),
    );
    if (state === undefined) return this.#local.lockedUntil(account);
    const [[at, epoch], current] = state;
    if ((epoch ?? "") !== (current ?? "")) return undefined;
    const untilMs = Number(at ?? 0);
    if (untilMs <= this.#now()) return undefined;
    return untilMs - this.#now() > LADDER_MEMORY_MS ? Number.POSITIVE_INFINITY : untilMs;
  }

  async clear(account: string): Promise<void> {
    await Promise.all([this.#clearShared(account), this.#local.clear(account)]);
  }

  async forget(account: string): Promise<void> {
    const keys = this.#counters.ofAccount(account).map(stored);
    await Promise.all([this.#redis.ask((client) => client.del(...keys)), this.#local.forget(account)]);
  }

  async close(): Promise<void> {
    this.#redis.close();
    await this.#local.close();
  }

  #sendUnsent(): void {
    const accounts = [...this.#unsent];
    this.#unsent.clear();
    for (const account of accounts) void this.#clearShared(account);
  }

  async #clearShared(account: string): Promise<void> {
    const cleared = await this.#redis.ask((client) =>
      client.set(stored(this.#counters.epochOf(account)), randomUUID(), "PX", LADDER_MEMORY_MS),
    );
    if (cleared === undefined && this.#unsent.size < MAX_UNSENT) this.#unsent.add(account);
  }

  /** Returns false when the time is over. */
  async #lease(key: string, id: string, untilMs: number): Promise<boolean> {
    for (;;) {
      const taken = await this.#redis.ask((client) => client.set(key, id, "PX", TURN_LEASE_MS, "NX"));
      // Without Redis, the turns of this replica must suffice: at worst a right password counts as a failure.
      if (taken !== null) return true;
      if (performance.now() + TURN_POLL_MS > untilMs) return false;
      await sleep(TURN_POLL_MS);
    }
  }
}
