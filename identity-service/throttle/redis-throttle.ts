import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { RedisSettings } from "#kit/redis/redis-connection.ts";
import { openSharedRedis } from "#kit/redis/shared-redis.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { createTurns, tooLong } from "#kit/values/turns.ts";
import { decisionsOf, limitArguments, RedisSource } from "#rate-limit/redis-source.ts";
import { createMemoryThrottle } from "./memory-throttle.ts";
import { giveBackScript, ladderArguments, takeScript } from "./redis-ladders.ts";
import { LADDER_MEMORY_MS, refusalOf, shareOf, type Throttle, type ThrottleLimits } from "./throttle.ts";
import { budgetKey, type CountedBudget, createCounters } from "./throttle-counters.ts";

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
export function createRedisThrottle(options: RedisThrottleOptions): Throttle {
  const { limits, now } = options;
  const counters = createCounters(limits, options.secret);
  const local = createMemoryThrottle({
    limits: shareOf(limits, options.replicas),
    now: options.localNow ?? now,
  });
  const turns = createTurns();
  const unsent = new Set<string>();
  const redis = openSharedRedis({
    ...options,
    name: "gatehouse-throttle",
    what: "logins are throttled",
    onAnswer: sendUnsent,
  });

  const source = new RedisSource({ redis, keyOf: (budget: CountedBudget) => stored(budgetKey(budget)), now });

  function sendUnsent(): void {
    const accounts = [...unsent];
    unsent.clear();
    for (const account of accounts) void clear(account);
  }

  async function clear(account: string): Promise<void> {
    const cleared = await redis.ask((client) =>
      client.set(stored(counters.epochOf(account)), randomUUID(), "PX", LADDER_MEMORY_MS),
    );
    if (cleared === undefined && unsent.size < MAX_UNSENT) unsent.add(account);
  }

  /** Returns false when the time is over. */
  async function lease(key: string, id: string, untilMs: number): Promise<boolean> {
    for (;;) {
      const taken = await redis.ask((client) => client.set(key, id, "PX", TURN_LEASE_MS, "NX"));
      // Without Redis, the turns of this replica must suffice: at worst a right password counts as a failure.
      if (taken !== null) return true;
      if (performance.now() + TURN_POLL_MS > untilMs) return false;
      await sleep(TURN_POLL_MS);
    }
  }

  options.metrics.gauge(
    "gatehouse_throttle_shared",
    "1 while logins are throttled by all replicas together.",
    [],
    (gauge) => gauge.set(redis.isConnected ? 1 : 0),
  );

  return {
    async turn(guess, waitMs) {
      const untilMs = performance.now() + waitMs;
      const { turn } = counters.ofGuess(guess);
      const done = await turns.take(turn, waitMs);
      const id = randomUUID();
      if (!(await lease(stored(turn), id, untilMs))) {
        done();
        throw tooLong();
      }
      return () => void redis.ask((client) => client.eval(END_TURN, 1, stored(turn), id)).finally(done);
    },
    async spend(call) {
      const budgets = counters.ofCall(call);
      const decisions = await source.spend(budgets);
      if (decisions === undefined) return local.spend(call);
      return refusalOf(budgets, decisions) ?? { kind: "admitted" };
    },
    async take(guess) {
      const { budgets, epoch, ladders } = counters.ofGuess(guess);
      const keys = [...budgets.map(budgetKey), epoch, ...ladders.map(({ key }) => key)];
      const given = [now(), budgets.length, ...limitArguments(budgets), ...ladderArguments(ladders)];
      const answer = await redis.ask((client) => takeScript(client, keys.map(stored), given));
      if (answer === undefined) return local.take(guess);
      const [kind, ...rest] = answer as [kind: string, ...rest: unknown[]];
      if (kind === "locked") return { kind };
      if (kind === "admitted") return { kind, ...(rest[0] === 1 && { locksIfWrong: true }) };
      const refusal = refusalOf(budgets, decisionsOf(budgets, rest as string[]));
      if (refusal === undefined) throw new Error("the script refused what the budgets allow");
      return refusal;
    },
    async succeed(guess) {
      const { budgets, cleared } = counters.ofGuess(guess);
      await Promise.all([
        source.refund(budgets),
        redis.ask((client) => client.del(...cleared.map(stored))),
        // The attempt may have been counted here while Redis was away.
        local.succeed(guess),
      ]);
    },
    async lockedUntil(account) {
      const [key, epochKey] = counters.ofAccount(account).map(stored) as [string, string];
      const state = await redis.ask((client) =>
        Promise.all([client.hmget(key, "at", "epoch"), client.get(epochKey)]),
      );
      if (state === undefined) return local.lockedUntil(account);
      const [[at, epoch], current] = state;
      if ((epoch ?? "") !== (current ?? "")) return undefined;
      const untilMs = Number(at ?? 0);
      if (untilMs <= now()) return undefined;
      return untilMs - now() > LADDER_MEMORY_MS ? Number.POSITIVE_INFINITY : untilMs;
    },
    async giveBack(guess) {
      const { budgets, epoch, ladders } = counters.ofGuess(guess);
      const keys = [epoch, ...ladders.map(({ key }) => key)].map(stored);
      await Promise.all([
        source.refund(budgets),
        redis.ask((client) => giveBackScript(client, keys, [now(), ...ladderArguments(ladders)])),
        local.giveBack(guess),
      ]);
    },
    async clear(account) {
      await Promise.all([clear(account), local.clear(account)]);
    },
    async forget(account) {
      const keys = counters.ofAccount(account).map(stored);
      await Promise.all([redis.ask((client) => client.del(...keys)), local.forget(account)]);
    },
    async close() {
      redis.close();
      await local.close();
    },
  };
}
