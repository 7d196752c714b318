import { Redis } from "ioredis";
import { pino } from "pino";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type FakeSentinel, startFakeSentinel } from "#tests/support/database/fake-sentinel.ts";
import {
  findRedisProgram,
  HOW_TO_GET_REDIS_PROGRAM,
  startRedis,
  type TestRedis,
} from "#tests/support/database/redis.ts";
import { type SecuredSentinels, startSecuredSentinels } from "#tests/support/database/secured-sentinels.ts";
import { createTestCertificates, type TestCertificates } from "#tests/support/system/certificates.ts";
import { Secret } from "../config/config.ts";
import type { RedisSettings } from "./redis-settings.ts";
import { openSharedRedis, type SharedRedis } from "./shared-redis.ts";

const program = findRedisProgram();
if (program === undefined) process.stderr.write(HOW_TO_GET_REDIS_PROGRAM);

const cleanUp: (() => unknown)[] = [];
afterEach(async () => {
  for (const undo of cleanUp.splice(0).reverse()) await undo();
});

const AWAY = "Redis away: calls are limited by each replica for itself";

interface Entry {
  msg: string;
  primary?: string;
  err?: { message: string };
}

function open(url: string, settings: Partial<RedisSettings> = {}, entries: Entry[] = []): SharedRedis {
  const shared = openSharedRedis({
    ...settings,
    url,
    name: "gatehouse-test",
    what: "calls are limited",
    // A slow machine is no missing Redis.
    answerTimeoutMs: 30_000,
    logger: pino({ level: "info" }, { write: (line: string) => void entries.push(JSON.parse(line)) }),
  });
  cleanUp.push(() => shared.close());
  return shared;
}

const increased = (shared: SharedRedis) => shared.ask((client) => client.incr("count"));
const connected = (shared: SharedRedis) => expect.poll(() => increased(shared)).toBeGreaterThan(0);

describe.skipIf(program === undefined)("what the sentinels say", () => {
  let servers: [TestRedis, TestRedis];
  let sentinels: [FakeSentinel, FakeSentinel, FakeSentinel];
  let shared: SharedRedis;

  beforeEach(async () => {
    const start = async () => {
      const server = await startRedis(program ?? "");
      cleanUp.push(() => server.remove());
      return server;
    };
    servers = [await start(), await start()];
    const say = async () => {
      const sentinel = await startFakeSentinel(servers[0].port);
      cleanUp.push(sentinel.close);
      return sentinel;
    };
    sentinels = [await say(), await say(), await say()];
    shared = open(`redis+sentinel://${sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",")}/gatehouse`);
    await connected(shared);
  });

  async function countAt(server: TestRedis): Promise<number> {
    const redis = new Redis(server.port);
    cleanUp.push(() => redis.disconnect());
    return Number(await redis.get("count"));
  }

  test("one of three that names another server changes nothing", async () => {
    const sinceMs = shared.connectedAtMs;
    sentinels[0].says = servers[1].port;
    // Until it has been asked twice.
    await expect.poll(() => increased(shared), { timeout: 10_000 }).toBeGreaterThan(20);
    expect(shared.connectedAtMs).toBe(sinceMs);
    expect(await countAt(servers[1])).toBe(0);
  });

  test("the server that two of three name is used from then on, and no longer the old one, which still works", async () => {
    const sinceMs = shared.connectedAtMs ?? 0;
    sentinels[1].says = servers[1].port;
    sentinels[2].says = servers[1].port;
    await expect.poll(() => shared.connectedAtMs ?? 0).toBeGreaterThan(sinceMs);
    const before = await countAt(servers[0]);
    await connected(shared);
    expect(await countAt(servers[1])).toBeGreaterThan(0);
    expect(await countAt(servers[0])).toBe(before);
  });

  test.each([
    ["do not know the name", undefined],
    ["are silent", "silent"],
  ] as const)(
    "nothing is asked while two of three sentinels %s, and the time of the connection begins anew",
    async (_, said) => {
      const sinceMs = shared.connectedAtMs ?? 0;
      for (const sentinel of sentinels.slice(1)) sentinel.says = said;
      await expect.poll(() => shared.connectedAtMs, { timeout: 20_000 }).toBeUndefined();
      const before = await countAt(servers[0]);
      expect(await increased(shared)).toBeUndefined();
      expect(shared.isConnected).toBe(false);
      expect(await countAt(servers[0])).toBe(before);

      for (const sentinel of sentinels.slice(1)) sentinel.says = servers[0].port;
      await expect.poll(() => shared.isConnected, { timeout: 20_000 }).toBe(true);
      expect(await increased(shared)).toBe(before + 1);
      expect(shared.connectedAtMs).toBeGreaterThan(sinceMs);
    },
  );

  test("two sentinels that name two servers are no majority, whatever they named before", async () => {
    sentinels[0].says = undefined;
    sentinels[1].says = servers[1].port;
    await expect.poll(() => shared.connectedAtMs, { timeout: 20_000 }).toBeUndefined();
    expect(await increased(shared)).toBeUndefined();
  });

  test("a killed primary is left for its promoted replica, and not written to when it is back, empty", async () => {
    const [old, replica] = servers;
    const redis = new Redis(replica.port);
    cleanUp.push(() => redis.disconnect());
    await redis.replicaof("127.0.0.1", `${old.port}`);
    await expect.poll(() => countAt(replica), { timeout: 60_000 }).toBeGreaterThan(0);
    const sinceMs = shared.connectedAtMs ?? 0;
    await old.kill();
    await expect.poll(() => shared.connectedAtMs, { timeout: 60_000 }).toBeUndefined();
    expect(await increased(shared)).toBeUndefined();

    await redis.replicaof("NO", "ONE");
    const before = await countAt(replica);
    for (const sentinel of sentinels) sentinel.says = replica.port;
    await expect.poll(() => increased(shared), { timeout: 60_000 }).toBe(before + 1);
    expect(shared.connectedAtMs).toBeGreaterThan(sinceMs);
    // It takes itself for the primary until a sentinel has said otherwise.
    await old.restart();
    expect(await increased(shared)).toBe(before + 2);
    expect(await countAt(old)).toBe(0);
  });
});

describe.skipIf(program === undefined)("sentinels with TLS, passwords and names of hosts", () => {
  let real: SecuredSentinels;
  let right: Pick<RedisSettings, "password" | "sentinelPassword" | "caFile">;
  let strangers: TestCertificates;

  beforeAll(async () => {
    const ours = await createTestCertificates();
    strangers = await createTestCertificates();
    real = await startSecuredSentinels(program ?? "", ours);
    right = {
      password: new Secret(real.password),
      sentinelPassword: new Secret(real.sentinelPassword),
      caFile: real.caFile,
    };
    return async () => {
      await real.remove();
      await Promise.all([ours.remove(), strangers.remove()]);
    };
  });

  test.each([
    [
      "sentinel password",
      () => ({ sentinelPassword: new Secret("another") }),
      /\(sentinel localhost:\d+: WRONGPASS/,
    ],
    ["password", () => ({ password: new Secret("another") }), /^WRONGPASS/],
    [
      "authority",
      () => ({ caFile: strangers.environmentOf("token-service").TLS_CA_FILE }),
      /\(sentinel localhost:\d+: .*certificate/,
    ],
  ])("another %s is refused, and the log says which", async (_, wrong, reason) => {
    const entries: Entry[] = [];
    const shared = open(real.url, { ...right, ...wrong() }, entries);
    const said = () => entries.map(({ msg, err }) => [msg, err?.message]);
    await expect.poll(said).toEqual([[AWAY, expect.stringMatching(reason)]]);
    expect(shared.connectedAtMs).toBeUndefined();
  });

  test("a killed primary is left for its replica", async () => {
    const entries: Entry[] = [];
    const shared = open(real.url, right, entries);
    await connected(shared);
    await real.primary.kill();
    const primaries = () => entries.flatMap(({ err, primary = [] }) => (err === undefined ? primary : []));
    const expected = [real.primary, real.replica].map(({ port }) => `localhost:${port}`);
    await expect.poll(primaries).toEqual(expected);
    await connected(shared);
  });
});

describe.skipIf(program === undefined)("a server that has become a replica", () => {
  test("is left: its name may lead to another one by now", async () => {
    const server = await startRedis(program ?? "");
    cleanUp.push(() => server.remove());
    const shared = open(server.url);
    await connected(shared);
    const sinceMs = shared.connectedAtMs ?? 0;
    const redis = new Redis(server.port);
    cleanUp.push(() => redis.disconnect());
    // Nobody listens there. Its clients' connections stay.
    await redis.replicaof("127.0.0.1", 9);
    await expect
      .poll(async () => {
        await increased(shared);
        return shared.connectedAtMs ?? 0;
      })
      .toBeGreaterThan(sinceMs);
    await redis.replicaof("NO", "ONE");
    await connected(shared);
  });
});
