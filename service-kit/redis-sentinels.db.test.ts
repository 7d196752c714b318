import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findRedisProgram, HOW_TO_GET_REDIS_PROGRAM } from "../tests/support/redis.ts";
import { type RedisSentinels, startRedisSentinels } from "../tests/support/redis-sentinels.ts";
import { openSharedRedis, type SharedRedis } from "./shared-redis.ts";

const program = findRedisProgram();
if (program === undefined) process.stderr.write(HOW_TO_GET_REDIS_PROGRAM);

describe.skipIf(program === undefined)("three Redis and three sentinels", () => {
  let redis: RedisSentinels;
  let shared: SharedRedis;
  beforeAll(async () => {
    redis = await startRedisSentinels(program ?? "", { downAfterMs: 1_000 });
    await redis.whole();
    shared = openSharedRedis({
      url: redis.url,
      name: "gatehouse-test",
      what: "calls are limited",
      answerTimeoutMs: 30_000,
      logger: pino({ enabled: false }),
    });
  }, 60_000);
  afterAll(async () => {
    shared?.close();
    await redis?.remove();
  });

  const increased = () => shared.ask((client) => client.incr("count"));

  test("a killed primary is left for the one that the sentinels elect, and not written to when it comes back", async () => {
    await expect.poll(increased, { timeout: 30_000 }).toBe(1);
    const [old, sinceMs = 0] = [await redis.whole(), shared.connectedAtMs];
    await old.kill();
    await expect.poll(() => shared.connectedAtMs).toBeUndefined();
    const { node } = await redis.elected(old);
    await expect.poll(increased, { timeout: 60_000 }).toBeGreaterThan(0);
    expect(await node.ask("GET", "count")).not.toBeNull();
    expect(shared.connectedAtMs).toBeGreaterThan(sinceMs);
    await old.start();
    expect(await redis.whole()).toBe(node);
    expect(await increased()).toBeGreaterThan(1);
    const role = (await old.ask("ROLE")) as unknown[];
    expect(role[0]).toBe("slave");
  }, 120_000);
});
