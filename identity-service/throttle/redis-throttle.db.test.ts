import { createHash, randomBytes } from "node:crypto";
import { Redis } from "ioredis";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import {
  findRedisProgram,
  HOW_TO_GET_REDIS_PROGRAM,
  startRedis,
  type TestRedis,
} from "#tests/support/database/redis.ts";
import { RedisThrottle } from "./redis-throttle.ts";
import { testThrottleContract } from "./throttle.contract.ts";
import { CALLS_OF_NETWORK, type Throttle, type ThrottleLimits, throttleLimits } from "./throttle.ts";

const program = findRedisProgram();
if (program === undefined) process.stderr.write(HOW_TO_GET_REDIS_PROGRAM);

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const undo of cleanUp.splice(0).reverse()) await undo();
});

let nowMs = 1.8e12;

const SECRET = randomBytes(32);

async function connectedThrottle(
  redis: TestRedis,
  limits: ThrottleLimits,
  replicas = 1,
  // A busy machine must not make a replica count by itself where that is not what is tested.
  answerTimeoutMs = 30_000,
) {
  const lines: string[] = [];
  const logger = pino({ level: "info" }, { write: (line: string) => void lines.push(JSON.parse(line).msg) });
  const metrics = createMetrics("test");
  const throttle = new RedisThrottle({
    url: redis.url,
    limits,
    secret: SECRET,
    replicas,
    answerTimeoutMs,
    now: () => nowMs,
    logger,
    metrics,
  });
  cleanUp.push(() => throttle.close());
  const isShared = async () => /^gatehouse_throttle_shared\{.*\} 1$/m.test(await metrics.render());
  const shared = (expected: boolean) => expect.poll(isShared, { interval: 10 }).toBe(expected);
  await shared(true);
  return { throttle, lines, shared };
}

const guess = (account: string, clientIp = "192.0.2.1") => ({ account, clientIp });

async function admittedOf(count: number, throttles: Throttle[], account = "ada"): Promise<number> {
  const admissions = await Promise.all(
    Array.from({ length: count }, (_, index) =>
      (throttles[index % throttles.length] as Throttle).take(guess(account, `192.0.2.${index % 256}`)),
    ),
  );
  return admissions.filter(({ kind }) => kind === "admitted").length;
}

let redis: TestRedis;
beforeEach(async () => {
  redis = await startRedis(program ?? "");
  cleanUp.push(() => redis.remove());
});
const limits = throttleLimits({ network: 1_000, everything: 100_000 });

const describeWithRedis = describe.skipIf(program === undefined);

describeWithRedis("with Redis", () => {
  testThrottleContract("the throttle in Redis", async (given) => {
    await redis.empty();
    const { throttle } = await connectedThrottle(redis, given);
    return {
      throttle,
      pass: (ms) => {
        nowMs += ms;
      },
    };
  });

  test("replicas count together: 200 guesses at once over two of them, 5 are admitted", async () => {
    const first = await connectedThrottle(redis, limits, 2);
    const second = await connectedThrottle(redis, limits, 2);
    expect(await admittedOf(200, [first.throttle, second.throttle])).toBe(5);
  });

  test("while Redis is away a replica allows its share, and it is logged once each way", async () => {
    const { throttle, lines, shared } = await connectedThrottle(redis, limits, 2);
    await redis.kill();
    await shared(false);
    expect(await admittedOf(200, [throttle])).toBe(3);
    expect(await admittedOf(200, [throttle], "ben")).toBe(3);
    const calls = await Promise.all(
      Array.from({ length: 100 }, () => throttle.spend({ kind: "register", clientIp: "192.0.2.1" })),
    );
    expect(calls.filter(({ kind }) => kind === "admitted")).toHaveLength(CALLS_OF_NETWORK / 2);
    await redis.restart();
    await shared(true);
    expect(await admittedOf(200, [throttle])).toBe(5);
    expect(lines).toEqual([
      "Redis connected: logins are throttled by all replicas together",
      "Redis away: logins are throttled by each replica for itself",
      "Redis connected: logins are throttled by all replicas together",
    ]);
  });

  test("replicas take turns: 20 attempts on one account over two of them, one at a time", async () => {
    const first = await connectedThrottle(redis, limits, 2);
    const second = await connectedThrottle(redis, limits, 2);
    let underWay = 0;
    let most = 0;
    await Promise.all(
      Array.from({ length: 20 }, async (_, index) => {
        const { throttle } = index % 2 === 0 ? first : second;
        const done = await throttle.turn(guess("ada"), 10_000);
        underWay += 1;
        most = Math.max(most, underWay);
        await new Promise((resolve) => setTimeout(resolve, 3));
        underWay -= 1;
        done();
      }),
    );
    expect(most).toBe(1);
  });

  test("a replica that dies in its turn holds the others up for three seconds at most", async () => {
    const { throttle } = await connectedThrottle(redis, limits);
    await throttle.turn(guess("ada"), 1_000);
    await throttle.close();
    const other = await connectedThrottle(redis, limits);
    await expect(other.throttle.turn(guess("ada"), 100)).rejects.toMatchObject({ code: "busy" });
    await expect.poll(() => other.throttle.turn(guess("ada"), 500).then(() => "taken")).toBe("taken");
  });
});

describeWithRedis("with a Redis that does not help", () => {
  test("an account that was cleared while Redis did not answer is cleared there when it does", async () => {
    const first = await connectedThrottle(redis, limits, 1, 150);
    const second = await connectedThrottle(redis, limits, 1, 150);
    expect(await admittedOf(10, [first.throttle])).toBe(5);
    redis.freeze();
    await admittedOf(1, [first.throttle], "ben"); // from now on Redis is left alone for a second
    await first.throttle.clear("ada");
    redis.thaw();
    expect(await admittedOf(1, [second.throttle])).toBe(0);
    await expect
      .poll(
        async () => {
          await admittedOf(1, [first.throttle], "ben");
          return admittedOf(1, [second.throttle]);
        },
        { interval: 100 },
      )
      .toBe(1);
    await second.shared(true);
  });

  test("a Redis Cluster is not used: each replica counts for itself, and the log says why", async () => {
    const cluster = await startRedis(program ?? "", { cluster: true });
    cleanUp.push(() => cluster.remove());
    const { throttle, lines } = await connectedThrottle(cluster, limits, 2);
    expect(await admittedOf(200, [throttle])).toBe(3);
    expect(lines.at(-1)).toBe(
      "REDIS_URL names a node of a Redis Cluster, which is not supported: logins are throttled by each replica for itself",
    );
  });

  test("a Redis that answers nothing is asked once in a second, and lifts no limit", async () => {
    const { throttle } = await connectedThrottle(redis, limits, 1, 150);
    const asked = vi.spyOn(Redis.prototype, "evalsha");
    cleanUp.push(() => asked.mockRestore());
    vi.spyOn(performance, "now").mockReturnValue(performance.now());
    cleanUp.push(() => vi.mocked(performance.now).mockRestore());
    redis.freeze();
    cleanUp.push(() => redis.thaw());
    expect(await admittedOf(1, [throttle])).toBe(1);
    expect(asked).toHaveBeenCalledTimes(1);
    expect(await admittedOf(20, [throttle])).toBe(4);
    expect(asked).toHaveBeenCalledTimes(1);
  });
});

const lifetimes = async (pattern: string) => {
  const client = new Redis(redis.url);
  cleanUp.push(() => client.disconnect());
  const keys = await client.keys(`gatehouse:{throttle}:${pattern}`);
  return Promise.all(keys.map((key) => client.pttl(key)));
};
const DAY_MS = 24 * 3_600_000;

describeWithRedis("what Redis keeps", () => {
  test("a wrong guess at an address is kept for a day, and for longer the more there are", async () => {
    const { throttle } = await connectedThrottle(redis, limits);
    await throttle.take(guess("ada"));
    const kept = await lifetimes("[an]:*");
    expect(kept).toHaveLength(2);
    expect(Math.max(...kept)).toBeLessThanOrEqual(DAY_MS);
    await admittedOf(5, [throttle]);
    expect(Math.max(...(await lifetimes("a:*")))).toBeGreaterThan(DAY_MS);
    expect(Math.max(...(await lifetimes("a:*")))).toBeLessThanOrEqual(2 * DAY_MS);
  });

  test("a shut account stays shut for 30 days", async () => {
    const { throttle } = await connectedThrottle(redis, limits);
    for (let round = 0; round < 100; round += 1) {
      await throttle.take(guess("ada", `192.0.2.${round}`));
      nowMs += 3_600_000;
    }
    const [kept = 0] = await lifetimes("a:*");
    expect(kept).toBeGreaterThan(29 * DAY_MS);
  });

  test("a deleted account leaves no data that its address, or a search of all addresses, would find", async () => {
    const { throttle } = await connectedThrottle(redis, limits);
    await throttle.take(guess("ada@example.com"));
    await throttle.clear("ada@example.com");
    const plain = (text: string) => createHash("sha256").update(text).digest("base64url").slice(0, 22);
    const client = new Redis(redis.url);
    cleanUp.push(() => client.disconnect());
    const names = (await client.keys("*")).join(" ");
    expect(names).not.toContain(plain("ada@example.com"));
    expect(names).not.toContain(plain("192.0.2.1"));
    expect(await lifetimes("[ae]:*")).toHaveLength(2);
    await throttle.forget("ada@example.com");
    expect(await lifetimes("[ae]:*")).toEqual([]);
  });

  test("a Redis that has lost the script gets it again", async () => {
    const { throttle } = await connectedThrottle(redis, limits);
    expect(await admittedOf(10, [throttle])).toBe(5);
    await redis.restart();
    await expect.poll(() => admittedOf(1, [throttle], "ben")).toBe(1);
  });
});
