import { setImmediate as nextTurn } from "node:timers/promises";
import { Redis } from "ioredis";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { openSharedRedis, type SharedRedis } from "#kit/redis/shared-redis.ts";
import { limitOf } from "#rate-limit/gcra.ts";
import {
  findRedisProgram,
  HOW_TO_GET_REDIS_PROGRAM,
  startRedis,
  type TestRedis,
} from "#tests/support/database/redis.ts";
import type { Bucket } from "./bucket.ts";
import { testLimiterContract } from "./call-limiter.contract.ts";
import { type CallLimiter, createRedisLimiter } from "./call-limiter.ts";
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
  limit: limitOf(calls, perSeconds * 1_000),
});

async function connect(
  redis: TestRedis,
  lines: string[] = [],
  // A slow machine must not cause the fallback to local counting.
  answerTimeoutMs = 30_000,
): Promise<SharedRedis> {
  const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const shared = openSharedRedis({
    url: redis.url,
    name: "gatehouse-test",
    what: "calls are limited",
    answerTimeoutMs,
    logger,
  });
  cleanUp.push(() => shared.close());
  await expect.poll(() => shared.isConnected, { interval: 5 }).toBe(true);
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
    // With a standing clock: the counts do not depend on the speed of the machine.
    limiter: createRedisLimiter(await connect(redis), {
      replicas: 3,
      now: () => nowMs,
      redisNow: () => nowMs,
    }),
    pass: (ms) => {
      nowMs += ms;
    },
  }));

  test("a network or device that one gateway knows is known to all, and in little memory", async () => {
    const limiters = await Promise.all(
      [1, 2].map(async () => createRedisLimiter(await connect(redis), { replicas: 3, now })),
    );
    const [one, other] = limiters as [CallLimiter, CallLimiter];
    const bucket: Bucket = {
      ...bucketOf(1),
      kind: "own login total",
      scope: "total",
      exemptNetwork: "192.0.2.1",
    };
    await one.remember({ network: "192.0.2.1", device: { key: "phone", userId: "ada" } });
    for (let call = 0; call < 5; call += 1) expect((await other.take([bucket])).refusedBy).toBeUndefined();
    const stranger = { ...bucket, exemptNetwork: "192.0.2.2" };
    expect((await other.take([stranger])).refusedBy).toBeUndefined();
    expect((await other.take([stranger])).refusedBy).toEqual(stranger);
    const phone: Bucket = { ...bucketOf(5), kind: "own login device", name: "phone", scope: "device" };
    expect((await other.take([phone, stranger])).refusedBy).toBeUndefined();
    expect((await other.take([{ ...phone, name: "made up" }, stranger])).refusedBy).toEqual(stranger);
    for (let index = 0; index < 500; index += 1) {
      const device = { key: `${index}`, userId: `${index}` };
      await one.remember({ network: `198.51.100.${index}`, device });
    }
    const shared = await connect(redis);
    const keys = (await shared.ask((client) => client.keys("*{limits}*"))) ?? [];
    const sizes = await Promise.all(
      keys.map(async (key) => (await shared.ask((client) => client.strlen(key))) ?? 0),
    );
    const large = sizes.filter((bytes) => bytes > 2 ** 20).sort((a, b) => b - a);
    expect(large.slice(0, 2)).toEqual([2 ** 24, 2 ** 23]);
    expect(large[2]).toBeLessThanOrEqual(2 ** 21);
    expect(large).toHaveLength(3);
    for (const key of keys.filter((name) => name.includes("filter"))) {
      const leftMs = (await shared.ask((client) => client.pttl(key))) ?? 0;
      expect(leftMs).toBeGreaterThan(15 * 86_400_000 - 60_000);
      expect(leftMs).toBeLessThanOrEqual(30 * 86_400_000);
    }
  });

  test("a Redis that has forgotten learns a device again from the gateway that knows it, and from no other", async () => {
    const limiters = await Promise.all(
      [1, 2].map(async () =>
        createRedisLimiter(await connect(redis), {
          replicas: 3,
          now: () => nowMs,
          redisNow: () => nowMs,
        }),
      ),
    );
    const [one, other] = limiters as [CallLimiter, CallLimiter];
    const phone = { network: "192.0.2.1", device: { key: "phone" } };
    await one.remember({ ...phone, device: { key: "phone", userId: "ada" } });
    const shared = await connect(redis);
    await shared.ask((client) => client.flushall());
    nowMs += 3_600_000;
    const buckets: [Bucket, Bucket] = [
      { ...bucketOf(5), kind: "own login device", name: "phone", scope: "device" },
      { ...bucketOf(1), kind: "own login total", scope: "total", exemptNetwork: "192.0.2.2" },
    ];
    await other.take(buckets.slice(1));
    await other.remember(phone);
    expect((await other.take(buckets)).refusedBy).toEqual(buckets[1]);
    await one.remember(phone);
    expect((await other.take(buckets)).refusedBy).toBeUndefined();
  });

  test("Redis accepts a network without a device, and with an unknown device", async () => {
    const lines: string[] = [];
    const limiter = createRedisLimiter(await connect(redis, lines), { replicas: GATEWAYS, now });
    await limiter.remember({ network: "192.0.2.1" });
    await limiter.remember({ network: "192.0.2.2", device: { key: "made up" } });
    expect(lines).toEqual(["Redis connected: calls are limited by all replicas together"]);
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
    await expect.poll(() => shared.every(({ isConnected }) => isConnected)).toBe(true);
    expect(await admittedExactly(300, shared, bucketOf(9))).toBe(9);
    expect(lines).toEqual([
      "Redis connected: calls are limited by all replicas together",
      "Redis away: calls are limited by each replica for itself",
      "Redis connected: calls are limited by all replicas together",
    ]);
  });

  test("a Redis that does not answer is asked once in a second, not for each call, and limits go on", async () => {
    const shared = await connect(redis, [], 150);
    const asked = vi.spyOn(Redis.prototype, "evalsha");
    cleanUp.push(() => asked.mockRestore());
    vi.spyOn(performance, "now").mockReturnValue(performance.now());
    cleanUp.push(() => vi.mocked(performance.now).mockRestore());
    redis.freeze();
    cleanUp.push(() => redis.thaw());
    expect(await admittedExactly(50, [shared], bucketOf(9))).toBe(9 / GATEWAYS);
    const limiter = createRedisLimiter(shared, { replicas: GATEWAYS, now });
    for (let call = 0; call < 100; call += 1) await limiter.take([bucketOf(9)]);
    expect(asked).toHaveBeenCalledTimes(1);
  });

  describe("forwarded calls", { tags: "exhaustive" }, () => {
    async function gateways(clock = now): Promise<{ all: ReconciledLimiter[]; shared: SharedRedis[] }> {
      const shared = await Promise.all(Array.from({ length: GATEWAYS }, () => connect(redis)));
      const all = shared.map(
        (each) => new ReconciledLimiter({ redis: each, replicas: GATEWAYS, now: clock }),
      );
      for (const limiter of all) cleanUp.push(() => limiter.close());
      return { all, shared };
    }
    /** Gateways that exchange when the test says so, not every 100 ms. */
    async function gatewaysByHand(clock = now) {
      const made = await gateways(clock);
      for (const limiter of made.all) limiter.close();
      return made;
    }
    const admitted = (limiter: ReconciledLimiter, count: number, bucket: Bucket) =>
      Array.from({ length: count }, () => limiter.take([bucket])).filter(
        ({ refusedBy }) => refusedBy === undefined,
      ).length;

    test("at once, three gateways let through at most three times the limit; afterwards they have agreed", async () => {
      const { all } = await gateways();
      const bucket = bucketOf(100);
      const startedMs = now();
      const burst = all.map((limiter) => admitted(limiter, 1_000, bucket));
      expect(burst).toEqual([100, 100, 100]);
      // Six seconds a call, and two hundred calls to wait for.
      const hasAgreed = () => all.every((limiter) => limiter.take([bucket]).waitMs > 600_000);
      await expect.poll(hasAgreed).toBe(true);
      expect(all.map((limiter) => admitted(limiter, 100, bucket))).toEqual([0, 0, 0]);
      expect(all[0]?.take([bucket]).waitMs).toBeGreaterThan(1_200_000 - (now() - startedMs) - 500);
    });

    test("over time three gateways let through what one would", async () => {
      const { all } = await gatewaysByHand();
      const bucket = bucketOf(20, 1);
      const startedMs = now();
      let [through, stalledMs] = [0, 0];
      while (through < 100) {
        const roundMs = now();
        for (const limiter of all) through += admitted(limiter, 1, bucket);
        // The first round reports the calls, the second learns those of the others.
        for (const limiter of [...all, ...all]) await limiter.exchange();
        await nextTurn();
        // Nobody calls while the machine stalls, and an empty bucket gains nothing by it.
        if (now() - roundMs > 500) stalledMs += now() - roundMs;
      }
      const tookS = (now() - startedMs) / 1_000;
      // In a round each gateway may admit a call that another one has used; the excess is waited for.
      expect(through).toBeLessThanOrEqual(20 + 20 * tookS + GATEWAYS);
      expect(through).toBeGreaterThan(20 * (tookS - stalledMs / 1_000) * 0.8);
    });

    test("a gateway learns of what the others let through with the first call of its own", async () => {
      const [one, other] = (await gateways()).all as [ReconciledLimiter, ReconciledLimiter];
      expect(admitted(one, 100, bucketOf(30))).toBe(30);
      // On its own it would never ask for a wait longer than one interval: 20 s.
      await expect.poll(() => other.take([bucketOf(30)]).waitMs, { interval: 100 }).toBeGreaterThan(20_000);
      expect(admitted(other, 100, bucketOf(30))).toBe(0);
    });

    test("Redis goes: each has its share, and what was used is not forgotten; Redis comes back empty: neither", async () => {
      const startedMs = now();
      const { all, shared } = await gatewaysByHand(() => startedMs);
      const exchange = () => Promise.all(all.map((limiter) => limiter.exchange()));
      const [one] = all as [ReconciledLimiter];
      expect(admitted(one, 10, bucketOf(30))).toBe(10);
      await exchange();
      await redis.kill();
      await expect.poll(() => shared.some(({ isConnected }) => isConnected)).toBe(false);
      expect(all.map((limiter) => admitted(limiter, 100, bucketOf(30)))).toEqual([6, 10, 10]);
      await redis.restart();
      await expect.poll(() => shared.every(({ isConnected }) => isConnected)).toBe(true);
      // Two whole calls fit where one call of a share, three times as large, did not.
      expect(all.map((limiter) => admitted(limiter, 100, bucketOf(30)))).toEqual([2, 0, 0]);
      await exchange();
      expect(all.map((limiter) => admitted(limiter, 100, bucketOf(30)))).toEqual([0, 0, 0]);
    });

    test("however many users call, an exchange sends a bounded number", async () => {
      const { all, shared } = await gatewaysByHand();
      const [one, other] = all as [ReconciledLimiter, ReconciledLimiter];
      const storedKeys = () => shared[0]?.ask((client) => client.dbsize());
      const bucket = (index: number): Bucket => ({
        ...bucketOf(1),
        name: `${index}`,
      });
      for (let index = 0; index < 3_500; index += 1) one.take([bucket(index)]);
      for (const count of [1_000, 2_000, 3_000, 3_500]) {
        await one.exchange();
        expect(await storedKeys()).toBe(count);
      }
      const learnt = async (index: number) => {
        other.take([bucket(index)]);
        await other.exchange();
        return other.take([bucket(index)]).waitMs;
      };
      expect(await learnt(0)).toBeGreaterThan(600_000);
      expect(await learnt(3_499)).toBeGreaterThan(600_000);
    });
  });
});
