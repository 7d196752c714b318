import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Secret } from "#kit/config/config.ts";
import type { RedisSettings } from "#kit/redis/redis-settings.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import {
  findRedis,
  findRedisProgram,
  HOW_TO_GET_REDIS,
  HOW_TO_GET_REDIS_PROGRAM,
  startRedis,
  type TestRedis,
  type TestRedisOptions,
} from "#tests/support/database/redis.ts";
import { createTestCertificates } from "#tests/support/system/certificates.ts";
import { logIn, startTokenReplica, type TokenReplica } from "#tests/support/system/token-service.ts";
import { revokeSession } from "../sessions/revoke-session.ts";
import { verifyToken } from "../tokens/verify-token.ts";
import { RedisBell } from "./redis-bell.ts";
import { testBellContract } from "./revocation-bell.contract.ts";
import type { RevocationBell } from "./revocation-bell.ts";

const source = findRedis();
const program = findRedisProgram();
if (source === undefined) process.stderr.write(HOW_TO_GET_REDIS);
else if (program === undefined) process.stderr.write(HOW_TO_GET_REDIS_PROGRAM);

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const undo of cleanUp.splice(0).reverse()) await undo();
});

interface TestBell extends RevocationBell {
  /** What it has logged: `[level, message]`. */
  log: [string, string][];
  isConnected(): Promise<boolean>;
}

function openBell(settings: RedisSettings): TestBell {
  const log: TestBell["log"] = [];
  const logger = pino(
    { level: "debug", formatters: { level: (label) => ({ level: label }) } },
    {
      write(line: string) {
        const { level, msg } = JSON.parse(line) as { level: string; msg: string };
        log.push([level, msg]);
      },
    },
  );
  const metrics = createMetrics("token-service");
  const bell = new RedisBell({ ...settings, logger, metrics });
  cleanUp.push(() => bell.close());
  const isConnected = async () => /^gatehouse_redis_connected\{.*\} 1$/m.test(await metrics.render());
  return Object.assign(bell, { log, isConnected });
}

async function connected(bell: TestBell): Promise<TestBell> {
  await expect.poll(bell.isConnected, { interval: 10 }).toBe(true);
  return bell;
}

const away = (bell: TestBell) => expect.poll(bell.isConnected, { interval: 10 }).toBe(false);

async function launchRedis(options: TestRedisOptions = {}): Promise<TestRedis> {
  const redis = await startRedis(program ?? "", options);
  cleanUp.push(() => redis.remove());
  return redis;
}

/** From now on nothing happens at intervals: no poll. (Vitest's fake timers will not do: `expect.poll` advances them.) */
function stopIntervals(): void {
  const never = setTimeout(() => undefined);
  clearTimeout(never);
  vi.spyOn(globalThis, "setInterval").mockReturnValue(never);
}

const CONNECTED = ["info", "Redis connected: replicas learn of revocations at once"];
const AWAY = ["warn", "Redis away: replicas poll for revocations"];

describe.skipIf(source === undefined)("with any Redis", () => {
  testBellContract("the bell over Redis", async () => {
    const url = source && "url" in source ? source.url : (await launchRedis()).url;
    const { username, password, host, protocol } = new URL(url);
    const settings = {
      url: `${protocol}//${username && `${username}@`}${host}`,
      ...(password && { password: new Secret(decodeURIComponent(password)) }),
    };
    const [here, there] = await Promise.all([connected(openBell(settings)), connected(openBell(settings))]);
    return { here, there };
  });
});

describe.skipIf(program === undefined)("two replicas over Redis", () => {
  let database: TestDatabase;
  let redis: TestRedis;
  let first: TokenReplica;
  let second: TokenReplica;
  let secondBell: TestBell;

  beforeEach(async () => {
    database = await createTestDatabase("token-service");
    redis = await launchRedis();
  });

  afterEach(() => database.drop());

  /** @param polling false: nothing but a ring makes a replica read the log. */
  async function startReplicas(polling: boolean): Promise<void> {
    if (!polling) stopIntervals();
    const bells = await Promise.all([connected(openBell(redis)), connected(openBell(redis))]);
    secondBell = bells[1];
    first = await startTokenReplica(database.sql, { bell: bells[0] });
    second = await startTokenReplica(database.sql, { bell: bells[1] });
    cleanUp.push(
      () => first.stop(),
      () => second.stop(),
    );
  }

  async function logInAndOut(): Promise<{ accessToken: string; sessionId: string }> {
    const userId = randomUUID();
    const pair = await logIn(first, userId);
    expect(await verifyToken(second.deps, pair.accessToken)).toMatchObject({ active: true });
    await revokeSession(first.deps, { sessionId: pair.sessionId, userId, reason: "logout" });
    return pair;
  }

  const secondRefuses = (sessionId: string) =>
    expect.poll(() => second.deps.revocations.isSessionRevoked(sessionId), { interval: 5 }).toBe(true);

  test("a session ended on one is refused by the other without any poll", async () => {
    await startReplicas(false);
    const { accessToken, sessionId } = await logInAndOut();
    await secondRefuses(sessionId);
    expect(await verifyToken(second.deps, accessToken)).toEqual({ active: false, refusal: "revoked" });
  });

  test("with Redis killed, the poll still brings it", async () => {
    await startReplicas(true);
    await redis.kill();
    const { accessToken, sessionId } = await logInAndOut();
    await secondRefuses(sessionId);
    expect(await verifyToken(second.deps, accessToken)).toEqual({ active: false, refusal: "revoked" });
  });

  test("Redis restarted empty brings no revoked token back, and rings again", async () => {
    await startReplicas(false);
    const before = await logInAndOut();
    await secondRefuses(before.sessionId);
    await redis.kill();
    await away(secondBell);
    await redis.restart();
    await connected(secondBell);

    await second.deps.revocations.refresh();
    expect(await verifyToken(second.deps, before.accessToken)).toEqual({ active: false, refusal: "revoked" });
    // Rung until the first replica's bell is back too: without a poll only a ring can bring it.
    const after = await logInAndOut();
    await expect
      .poll(
        () => {
          first.deps.revocations.announce();
          return second.deps.revocations.isSessionRevoked(after.sessionId);
        },
        { interval: 20 },
      )
      .toBe(true);
  });

  test("what was revoked while Redis was away is read as soon as it is back, without any poll", async () => {
    await startReplicas(false);
    await redis.kill();
    await away(secondBell);
    const { sessionId } = await logInAndOut();
    expect(second.deps.revocations.isSessionRevoked(sessionId)).toBe(false);
    await redis.restart();
    await secondRefuses(sessionId);
  });
});

describe.skipIf(program === undefined)("when Redis fails", () => {
  test("one line says that it is away and one that it is back, however often it was tried", async () => {
    const redis = await launchRedis();
    const bell = await connected(openBell(redis));
    await redis.kill();
    await away(bell);
    const tried = vi.spyOn(Redis.prototype, "connect");
    for (let count = 0; count < 100; count += 1) bell.ring();
    await expect.poll(() => tried.mock.calls.length).toBeGreaterThan(5);
    await redis.restart();
    await connected(bell);
    expect(bell.log).toEqual([CONNECTED, AWAY, CONNECTED]);
  });

  test("a bell that begins without Redis rings once there is one", async () => {
    const redis = await launchRedis();
    await redis.kill();
    const bell = openBell(redis);
    await expect.poll(() => bell.log).toEqual([AWAY]);
    expect(() => bell.ring()).not.toThrow();
    const listener = vi.fn();
    bell.onRing(listener); // Before it can connect again.
    await redis.restart();
    await connected(bell);
    await expect.poll(() => listener).toHaveBeenCalled(); // for whatever was rung before
    listener.mockClear();
    bell.ring();
    await expect.poll(() => listener, { interval: 5 }).toHaveBeenCalled();
  });

  test("a frozen Redis is noticed, blocks no caller, and rings again when it resumes", async () => {
    const redis = await launchRedis();
    const bell = await connected(openBell(redis));
    redis.freeze();
    cleanUp.push(() => redis.thaw());
    // It returns nothing to wait for.
    for (let count = 0; count < 10_000; count += 1) expect(bell.ring()).toBeUndefined();
    await away(bell);
    redis.thaw();
    await connected(bell);
    const listener = vi.fn();
    bell.onRing(listener);
    bell.ring();
    await expect.poll(() => listener, { interval: 5 }).toHaveBeenCalled();
  });

  test("a ring while another is under way is rung after it: what it is for may have been read too early", async () => {
    const redis = await launchRedis();
    const bell = await connected(openBell(redis));
    const listener = vi.fn();
    bell.onRing(listener);
    redis.freeze();
    cleanUp.push(() => redis.thaw());
    bell.ring();
    bell.ring();
    redis.thaw();
    await expect.poll(() => listener, { interval: 5 }).toHaveBeenCalledTimes(2);
    expect(bell.log).toEqual([CONNECTED]);
  });

  test("a Redis that goes silent without a ring is noticed too", async () => {
    const redis = await launchRedis();
    const bell = await connected(openBell(redis));
    redis.freeze();
    cleanUp.push(() => redis.thaw());
    await away(bell);
    expect(bell.log).toEqual([CONNECTED, AWAY]);
  });
});

describe.skipIf(program === undefined)("who may connect", () => {
  test("the password is needed, and is not in the log", async () => {
    const password = `s3cret ${randomUUID()}`;
    const redis = await launchRedis({ password });
    const anonymous = openBell(redis);
    const wrong = openBell({ url: redis.url, password: new Secret("wrong") });
    const right = openBell({ url: redis.url, password: new Secret(password) });
    await connected(right);
    await expect.poll(() => [anonymous.log, wrong.log]).toEqual([[AWAY], [AWAY]]);
    expect(await anonymous.isConnected()).toBe(false);
    expect(JSON.stringify([anonymous.log, wrong.log, right.log])).not.toContain("s3cret");
  });

  test("over TLS only a server of the named authority is spoken to, and none in plaintext", async () => {
    const [ours, strangers] = await Promise.all([createTestCertificates(), createTestCertificates()]);
    cleanUp.push(ours.remove, strangers.remove);
    const files = ours.environmentOf("token-service");
    const redis = await launchRedis({
      tls: { certFile: files.TLS_CERT_FILE, keyFile: files.TLS_KEY_FILE, caFile: files.TLS_CA_FILE },
    });
    const right = openBell({ url: redis.url, caFile: files.TLS_CA_FILE });
    const stranger = openBell({
      url: redis.url,
      caFile: strangers.environmentOf("token-service").TLS_CA_FILE,
    });
    const plain = openBell({ url: redis.url.replace("rediss:", "redis:") });
    await connected(right);
    await expect.poll(() => [stranger.log, plain.log]).toEqual([[AWAY], [AWAY]]);
  });
});
