import { setTimeout as sleep } from "node:timers/promises";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openSharedRedis, type SharedRedis } from "../service-kit/shared-redis.ts";
import {
  findRedisProgram,
  HOW_TO_GET_REDIS_PROGRAM,
  startRedis,
  type TestRedis,
} from "../tests/support/redis.ts";
import type { Bucket } from "./bucket.ts";
import { testLimiterContract } from "./call-limiter.contract.ts";
import { createRedisLimiter } from "./call-limiter.ts";
import { ReconciledLimiter } from "./reconciled-limiter.ts";

const program = findRedisProgram();
if (program === undefined) process.stderr.write(HOW_TO_GET_REDIS_PROGRAM);

const GATEWAYS = 3;
const now = () => performance.now();
const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const undo of cleanUp.splice(0).reverse()) await undo();
});

const bucketOf = (calls: number, perSeconds = 600): Bucket => ({
  kind: "proxied /payments user",
  name: "0199a000-0000-7000-8000-000000000001",
  scope: "user",
  limit: { calls, perSeconds },
});

async function connect(redis: TestRedis, lines: string[] = []): Promise<SharedRedis> {
  const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const shared = openSharedRedis({
    url: redis.url,
    name: "gatehouse-test",
    what: "calls are limited",
    logger,
  });
  cleanUp.push(() => shared.close());
  await expect.poll(() => shared.isConnected, { interval: 5, timeout: 10_000 }).toBe(true);
  return shared;
}

describe.skipIf(program === undefined)("with Redis", () => {
  let redis: TestRedis;
  beforeEach(async () => {
    redis = await startRedis(program ?? "");
    cleanUp.push(() => redis.remove());
  });

  let nowMs = 1.8e12;
  testLimiterContract("a limiter in Redis", async () => ({
    limiter: createRedisLimiter(await connect(redis), {
      replicas: 3,
      now: () => nowMs,
      redisNow: () => nowMs,
    }),
    pass: (ms) => {
      nowMs += ms;
    },
  }));

  test("a network that one gateway knows is known to all, and in little memory", async () => {
    const [one, other] = await Promise.all(
      [1, 2].map(async () => createRedisLimiter(await connect(redis), { replicas: 3, now })),
    );
    const bucket: Bucket = { ...bucketOf(1), kind: "own login total", scope: "total", spares: "192.0.2.1" };
    await one?.remember("192.0.2.1");
    for (let call = 0; call < 5; call += 1) expect((await other?.take([bucket]))?.refusedBy).toBeUndefined();
    const stranger = { ...bucket, spares: "192.0.2.2" };
    expect((await other?.take([stranger]))?.refusedBy).toBeUndefined();
    expect((await other?.take([stranger]))?.refusedBy).toEqual(stranger);
    for (let index = 0; index < 500; index += 1) await one?.remember(`198.51.100.${index}`);
    const shared = await connect(redis);
    const keys = (await shared.ask((client) => client.keys("*known networks*"))) ?? [];
    expect(keys).toHaveLength(1);
    expect(await shared.ask((client) => client.strlen(keys[0] ?? ""))).toBeLessThanOrEqual(2 ** 23);
    expect(await shared.ask((client) => client.pttl(keys[0] ?? ""))).toBeGreaterThan(86_400_000);
  });

  async function admittedExactly(count: number, shared: SharedRedis[], bucket: Bucket): Promise<number> {
    const limiters = shared.map((each) => createRedisLimiter(each, { replicas: GATEWAYS, now }));
    // So that Redis knows the script.
    for (const limiter of limiters) await limiter.take([{ ...bucket, kind: "own login total" }]);
    const calls = Array.from({ length: count }, (_, index) => limiters[index % limiters.length]);
    const verdicts = await Promise.all(calls.map((limiter) => limiter?.take([bucket])));
    return verdicts.filter((verdict) => verdict?.refusedBy === undefined).length;
  }

  test("300 calls at once on three gateways with a limit of 10: 10 get through", async () => {
    const shared = await Promise.all([connect(redis), connect(redis), connect(redis)]);
    expect(await admittedExactly(300, shared, bucketOf(10))).toBe(10);
  });

  test("Redis goes: each of three gateways has its third; it comes back: they count together again", async () => {
    const lines: string[] = [];
    const shared = await Promise.all([connect(redis, lines), connect(redis), connect(redis)]);
    await redis.kill();
    await expect.poll(() => shared.some(({ isConnected }) => isConnected)).toBe(false);
    expect(await admittedExactly(300, shared, bucketOf(9))).toBe(9);
    await redis.restart();
    await expect.poll(() => shared.every(({ isConnected }) => isConnected), { timeout: 10_000 }).toBe(true);
    expect(await admittedExactly(300, shared, bucketOf(9))).toBe(9);
    expect(lines).toEqual([
      "Redis connected: calls are limited by all replicas together",
      "Redis away: calls are limited by each replica for itself",
      "Redis connected: calls are limited by all replicas together",
    ]);
  });

  test("a Redis that does not answer costs one wait in a second, not one a call, and limits go on", async () => {
    const shared = await connect(redis);
    redis.freeze();
    cleanUp.push(() => redis.thaw());
    const startedMs = now();
    expect(await admittedExactly(50, [shared], bucketOf(9))).toBe(9 / GATEWAYS);
    const limiter = createRedisLimiter(shared, { replicas: GATEWAYS, now });
    for (let call = 0; call < 100; call += 1) await limiter.take([bucketOf(9)]);
    expect(now() - startedMs).toBeLessThan(1_000);
  });

  describe("forwarded calls", () => {
    async function gateways(): Promise<ReconciledLimiter[]> {
      return Promise.all(
        Array.from({ length: GATEWAYS }, async () => {
          const limiter = new ReconciledLimiter({ redis: await connect(redis), replicas: GATEWAYS });
          cleanUp.push(() => limiter.close());
          return limiter;
        }),
      );
    }
    const admitted = (limiter: ReconciledLimiter, count: number, bucket: Bucket) =>
      Array.from({ length: count }, () => limiter.take([bucket])).filter(
        ({ refusedBy }) => refusedBy === undefined,
      ).length;

    test("at once, three gateways let through at most three times the limit; afterwards they have agreed", async () => {
      const all = await gateways();
      const bucket = bucketOf(100, 10);
      const startedMs = now();
      const burst = all.map((limiter) => admitted(limiter, 1_000, bucket));
      expect(burst).toEqual([100, 100, 100]);
      await sleep(400);
      // Ten calls a second, and two hundred to wait for.
      expect(all.map((limiter) => admitted(limiter, 100, bucket))).toEqual([0, 0, 0]);
      expect(all[0]?.take([bucket]).waitMs).toBeGreaterThan(20_000 - (now() - startedMs) - 500);
    });

    test("over time three gateways let through what one would", async () => {
      const all = await gateways();
      const bucket = bucketOf(20, 1);
      const startedMs = now();
      let through = 0;
      while (now() - startedMs < 4_000) {
        for (const limiter of all) through += admitted(limiter, 1, bucket);
        await sleep(5);
      }
      const tookS = (now() - startedMs) / 1_000;
      expect(through).toBeLessThanOrEqual(GATEWAYS * 20 + 20 * tookS);
      // Overshoot is waited for, so that all that is left is what the last exchanges did not know of.
      expect(through).toBeLessThanOrEqual(20 + 20 * tookS + 20);
      expect(through).toBeGreaterThan(20 * tookS * 0.8);
    });

    test("a gateway learns of what the others let through with the first call of its own", async () => {
      const [one, other] = (await gateways()) as [ReconciledLimiter, ReconciledLimiter];
      expect(admitted(one, 100, bucketOf(30))).toBe(30);
      await sleep(300);
      expect(admitted(other, 1, bucketOf(30))).toBe(1);
      await sleep(300);
      expect(admitted(other, 100, bucketOf(30))).toBe(0);
    });

    test("Redis goes: each has its share, and what was used is not forgotten; Redis comes back empty: neither", async () => {
      const all = await gateways();
      const [one] = all as [ReconciledLimiter];
      expect(admitted(one, 10, bucketOf(30))).toBe(10);
      await sleep(300);
      await redis.kill();
      await sleep(300);
      expect(all.map((limiter) => admitted(limiter, 100, bucketOf(30)))).toEqual([6, 10, 10]);
      await redis.restart();
      await sleep(3_000);
      // Two whole calls fit where one call of a share, three times as large, did not.
      expect(all.map((limiter) => admitted(limiter, 100, bucketOf(30)))).toEqual([2, 0, 0]);
    });

    test("however many users call, an exchange tells of a bounded number", async () => {
      const [one, other] = (await gateways()) as [ReconciledLimiter, ReconciledLimiter];
      const bucket = (index: number): Bucket => ({
        ...bucketOf(1),
        name: `${index}`,
      });
      for (let index = 0; index < 3_500; index += 1) one.take([bucket(index)]);
      await sleep(1_500);
      const learnt = async (index: number) => {
        other.take([bucket(index)]);
        await sleep(300);
        return other.take([bucket(index)]).waitMs;
      };
      expect(await learnt(0)).toBeGreaterThan(600_000);
      expect(await learnt(3_499)).toBeGreaterThan(600_000);
    });
  });
});
