import fc from "fast-check";
import { Redis } from "ioredis";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openSharedRedis } from "#kit/redis/shared-redis.ts";
import {
  findRedisProgram,
  HOW_TO_GET_REDIS_PROGRAM,
  startRedis,
  type TestRedis,
} from "#tests/support/database/redis.ts";
import { type Decision, type LimitedBucket, limitOf } from "./gcra.ts";
import { MemorySource } from "./memory-source.ts";
import { RedisSource } from "./redis-source.ts";
import { testSourceContract } from "./source.contract.ts";

const program = findRedisProgram();
if (program === undefined) process.stderr.write(HOW_TO_GET_REDIS_PROGRAM);

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const undo of cleanUp.splice(0).reverse()) await undo();
});

describe.skipIf(program === undefined)("with Redis", () => {
  let redis: TestRedis;
  beforeEach(async () => {
    redis = await startRedis(program ?? "");
    cleanUp.push(() => redis.remove());
  });

  async function open(now?: () => number): Promise<RedisSource<LimitedBucket>> {
    const shared = openSharedRedis({
      url: redis.url,
      name: "gatehouse-test",
      what: "calls are limited",
      // A slow machine must not leave a call without an answer.
      answerTimeoutMs: 30_000,
      logger: pino({ level: "silent" }),
    });
    cleanUp.push(() => shared.close());
    await expect.poll(() => shared.isConnected, { interval: 5 }).toBe(true);
    return new RedisSource({ redis: shared, keyOf: ({ kind, name }) => `${kind} ${name}`, now });
  }
  function client(): Redis {
    const connected = new Redis(redis.url);
    cleanUp.push(() => connected.disconnect());
    return connected;
  }

  testSourceContract("buckets in Redis", async () => {
    let nowMs = 1.8e12;
    const source = await open(() => nowMs);
    return {
      spend: (buckets) => source.spend(buckets),
      refund: (buckets) => source.refund(buckets),
      pass: (ms) => {
        nowMs += ms;
      },
    };
  });

  // All times are multiples of a minute or more, or nothing: Redis drops a key by the real time, whatever the test's is.
  const limits = fc.record({
    calls: fc.integer({ min: 1, max: 9 }),
    windows: fc.integer({ min: 1, max: 5 }),
  });
  const steps = fc.array(
    fc.record({
      operation: fc.constantFrom("spend", "spend", "spend", "refund"),
      places: fc.subarray([0, 1, 2], { minLength: 1 }),
      passesMs: fc.constantFrom(0, 0, 0, 500_000, 1_000_000, 7_000_000),
    }),
    { minLength: 20, maxLength: 60 },
  );

  test("Lua and TypeScript decide alike for random calls in random order", async () => {
    let nowMs = 1.8e12;
    const shared = await open(() => nowMs);
    const seen = { allowed: 0, refused: 0 };
    let run = 0;
    const property = fc.asyncProperty(fc.tuple(limits, limits, limits), steps, async (given, calls) => {
      run += 1;
      const buckets = given.map(({ calls, windows }, place) => ({
        kind: `run ${run}`,
        name: `${place}`,
        limit: limitOf(calls, windows * 1_000_000),
      }));
      const memory = new MemorySource();
      for (const { operation, places, passesMs } of calls) {
        nowMs += passesMs;
        const used = buckets.filter((_, place) => places.includes(place));
        if (operation === "refund") {
          memory.refund(used);
          await shared.refund(used);
          continue;
        }
        const expected = memory.spend(used, nowMs);
        expect(await shared.spend(used)).toMatchObject(expected.map(aboutTheSame));
        seen[expected.every(({ isAllowed }) => isAllowed) ? "allowed" : "refused"] += 1;
      }
    });
    await fc.assert(property, { numRuns: 100 });
    expect(Math.min(seen.allowed, seen.refused)).toBeGreaterThan(100);
  });

  /** Times to a hundredth of a millisecond: a TAT that is less than that ahead of now may have expired in Redis. */
  function aboutTheSame({ isAllowed, remaining, retryInMs, resetInMs }: Decision) {
    return {
      isAllowed,
      remaining,
      retryInMs: expect.closeTo(retryInMs, 2),
      resetInMs: expect.closeTo(resetInMs, 2),
    };
  }

  test("without a clock option it uses the time of Redis", async () => {
    const source = await open();
    const bucket = { kind: "own login address", name: "a", limit: limitOf(2, 600_000) };
    const answers = await Promise.all([1, 2, 3].map(() => source.spend([bucket])));
    expect(answers.map((decisions) => decisions?.[0]?.isAllowed)).toEqual([true, true, false]);
    const tatMs = Number(await client().get("own login address a"));
    expect(tatMs - Date.now()).toBeGreaterThan(500_000);
    expect(tatMs - Date.now()).toBeLessThan(700_000);
  });

  test("a bucket is a key until it is empty, and no longer", async () => {
    const nowMs = 1.8e12;
    const source = await open(() => nowMs);
    const stored = client();
    const bucket = { kind: "own login address", name: "a", limit: limitOf(7, 600_000) };
    await source.spend([bucket]);
    await source.spend([bucket]);
    const lifetimeMs = await stored.pttl("own login address a");
    expect(lifetimeMs).toBeGreaterThan(100_000);
    expect(lifetimeMs).toBeLessThanOrEqual(171_429);
    await source.refund([bucket]);
    expect(await stored.pttl("own login address a")).toBeLessThanOrEqual(85_715);
    await source.refund([bucket]);
    await source.refund([bucket]);
    expect(await stored.dbsize()).toBe(0);
  });

  test("costs of other replicas are added beyond the limit, and the sum is returned", async () => {
    const nowMs = 1.8e12;
    const source = await open(() => nowMs);
    const bucket = { kind: "proxied", name: "a", limit: limitOf(2, 600_000) };
    await source.spend([bucket]);
    expect(await source.add([{ key: "proxied a", ms: 900_000 }])).toEqual([1_200_000]);
    expect(await source.spend([bucket])).toMatchObject([{ isAllowed: false, retryInMs: 900_000 }]);
    const asked = [
      { key: "proxied a", ms: 0 },
      { key: "proxied b", ms: 0 },
    ];
    expect(await source.add(asked)).toEqual([1_200_000, 0]);
    expect(await client().keys("*")).toEqual(["proxied a"]);
    expect(await source.add([])).toEqual([]);
  });
});
