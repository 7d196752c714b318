import { describe, expect, test } from "vitest";
import { limitOf } from "#rate-limit/gcra.ts";
import type { Bucket } from "./bucket.ts";
import { testLimiterContract } from "./call-limiter.contract.ts";
import { createMemoryLimiter, createRedisLimiter, storedKey } from "./call-limiter.ts";

let nowMs = 1e6;

testLimiterContract("a limiter in memory", async () => ({
  limiter: createMemoryLimiter({ replicas: 1, now: () => nowMs }),
  pass: (ms) => {
    nowMs += ms;
  },
}));

test("a gateway that is one of three has a third of the limits, and never nothing", () => {
  const limiter = createMemoryLimiter({ replicas: 3, now: () => nowMs });
  const admitted = (calls: number) => {
    const limit = limitOf(calls, 60_000);
    const bucket: Bucket = { kind: "own login address", name: `${calls}`, scope: "address", limit };
    return Array.from({ length: 20 }, () => limiter.takeHere([bucket])).filter(
      ({ refusedBy }) => refusedBy === undefined,
    ).length;
  };
  expect([admitted(15), admitted(2)]).toEqual([5, 1]);
});

test("a full memory has the bound that it was given, and says how much it holds", () => {
  const limiter = createMemoryLimiter({ replicas: 1, now: () => nowMs, maxEntries: 2 });
  const bucketOf = (name: string): Bucket => ({
    kind: "own login address",
    name,
    scope: "address",
    limit: limitOf(5, 60_000),
  });
  for (let index = 0; index < 20; index += 1) limiter.takeHere([bucketOf("a"), bucketOf(`${index % 2}`)]);
  // Two own buckets and a shared one.
  expect(limiter.size).toBe(3);
});

test("addresses are stored as digests, users and devices by their id", () => {
  const keyOf = (scope: Bucket["scope"]) => storedKey({ kind: "own login", name: "192.0.2.1", scope });
  expect(keyOf("address")).toMatch(/^gatehouse:\{limits\}:own login [\w-]{22}$/);
  expect(keyOf("user")).toBe("gatehouse:{limits}:own login 192.0.2.1");
  expect(keyOf("device")).toBe("gatehouse:{limits}:own login 192.0.2.1");
});

describe("without Redis", () => {
  const bucket: Bucket = {
    kind: "own login total",
    name: "",
    scope: "total",
    limit: limitOf(9, 60_000),
    exemptNetwork: "192.0.2.1",
  };

  /** A limiter whose Redis is away, and the number of requests to it. */
  function limiterAlone() {
    const redis = {
      isConnected: false,
      connectedAtMs: undefined,
      questions: 0,
      ask: async () => {
        redis.questions += 1;
        return undefined;
      },
      close: () => undefined,
    };
    return { redis, limiter: createRedisLimiter(redis, { replicas: 3, now: () => nowMs }) };
  }

  test("a gateway counts alone with its share, and remembers successful callers", async () => {
    const { limiter } = limiterAlone();
    const admitted = async (exemptNetwork: string) => {
      const verdicts = await Promise.all(
        Array.from({ length: 9 }, () => limiter.take([{ ...bucket, exemptNetwork }])),
      );
      return verdicts.filter(({ refusedBy }) => refusedBy === undefined).length;
    };
    expect(await admitted("192.0.2.1")).toBe(3);
    expect(limiter.size).toBe(1);
    await limiter.remember({ network: "192.0.2.1" });
    expect([limiter.isKnown("192.0.2.1"), limiter.isKnown("192.0.2.2")]).toEqual([true, false]);
    expect([await admitted("192.0.2.1"), await admitted("192.0.2.2")]).toEqual([9, 0]);
    expect(limiter.takeHere([{ ...bucket, exemptNetwork: "192.0.2.2" }]).refusedBy).toBeDefined();
  });

  test("a network is sent to Redis once an hour", async () => {
    const { limiter, redis } = limiterAlone();
    for (let call = 0; call < 3; call += 1) await limiter.remember({ network: "192.0.2.1" });
    expect(redis.questions).toBe(1);
    nowMs += 3_600_000;
    await limiter.remember({ network: "192.0.2.1" });
    expect(redis.questions).toBe(2);
  });
});
