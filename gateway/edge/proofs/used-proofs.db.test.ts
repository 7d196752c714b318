import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openSharedRedis, type SharedRedis } from "#kit/redis/shared-redis.ts";
import {
  findRedisProgram,
  HOW_TO_GET_REDIS_PROGRAM,
  startRedis,
  type TestRedis,
} from "#tests/support/database/redis.ts";
import { UsedProofs } from "./used-proofs.ts";

const program = findRedisProgram();
if (program === undefined) process.stderr.write(HOW_TO_GET_REDIS_PROGRAM);

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const undo of cleanUp.splice(0).reverse()) await undo();
});

const clock = { aheadMs: 0 };

async function connect(redis: TestRedis): Promise<SharedRedis> {
  const shared = openSharedRedis({
    url: redis.url,
    name: "gatehouse-test",
    what: "proofs are remembered",
    // A slow machine must not cause a demand for a nonce.
    answerTimeoutMs: 30_000,
    logger: pino({ level: "silent" }),
  });
  cleanUp.push(() => shared.close());
  await expect.poll(() => shared.isConnected, { interval: 5, timeout: 30_000 }).toBe(true);
  return shared;
}

const gatewayWith = (redis: SharedRedis) =>
  new UsedProofs({
    redis,
    nowMs: () => performance.now() + clock.aheadMs,
    wallMs: () => Date.now(),
  });
const USER = "ada";
const proofOf = (jti: string, nonce?: string) => ({ jkt: "k", jti, nonce });

describe.skipIf(program === undefined)("gateways with one Redis", () => {
  let redis: TestRedis;
  beforeEach(async () => {
    clock.aheadMs = 0;
    redis = await startRedis(program ?? "");
    cleanUp.push(() => redis.remove());
  });

  test("fifty calls with one proof race over two gateways: one passes", async () => {
    const gateways = [gatewayWith(await connect(redis)), gatewayWith(await connect(redis))];
    clock.aheadMs = 120_000;
    const uses = Array.from({ length: 50 }, (_, nth) => gateways[nth % 2]?.use(proofOf("j"), USER));
    expect((await Promise.all(uses)).filter((use) => use === "first")).toHaveLength(1);
    expect(await gateways[0]?.use(proofOf("other"), USER)).toBe("first");
  });

  test("what is remembered ends, and not before a proof does", async () => {
    const shared = await connect(redis);
    const gateway = gatewayWith(shared);
    clock.aheadMs = 120_000;
    await gateway.use(proofOf("j"), USER);
    const lives = await shared.ask(async (client) => {
      const [key = ""] = await client.keys("gatehouse:dpop:*");
      return client.pttl(key);
    });
    expect(lives).toBeGreaterThan(60_000);
    expect(lives).toBeLessThanOrEqual(120_000);
  });

  test("a Redis that has forgotten everything lets no used proof through", async () => {
    const shared = await connect(redis);
    const gateway = gatewayWith(shared);
    clock.aheadMs = 120_000;
    expect(await gateway.use(proofOf("j"), USER)).toBe("first");
    const before = shared.connectedAtMs ?? 0;
    await redis.restart();
    await expect
      .poll(() => shared.connectedAtMs ?? 0, { interval: 5, timeout: 30_000 })
      .toBeGreaterThan(before);
    clock.aheadMs = 0;
    expect(await gateway.use(proofOf("j"), USER)).toBe("needs_nonce");
    const { nonce } = gateway;
    expect(await gateway.use(proofOf("j", nonce), USER)).toBe("first");
    expect(await gatewayWith(shared).use(proofOf("j", nonce), USER)).toBe("needs_nonce");
  });

  test("without Redis' answer a proof needs a nonce", async () => {
    const shared = await connect(redis);
    const gateway = gatewayWith(shared);
    clock.aheadMs = 120_000;
    await redis.kill();
    await expect.poll(() => shared.connectedAtMs, { interval: 5, timeout: 30_000 }).toBeUndefined();
    expect(await gateway.use(proofOf("j"), USER)).toBe("needs_nonce");
    expect(await gateway.use(proofOf("j", gateway.nonce), USER)).toBe("first");
  });
});
