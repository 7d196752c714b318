import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openRedis } from "#kit/redis/redis-connection.ts";
import { startFakeSentinel } from "#tests/support/database/fake-sentinel.ts";
import { findRedisProgram, startRedis, type TestRedis } from "#tests/support/database/redis.ts";
import { checkRedisServers } from "./redis-servers.ts";

const program = findRedisProgram();

describe.skipIf(program === undefined)("Redis", () => {
  let redis: TestRedis;
  let folder: string;
  let password: string;

  beforeAll(async () => {
    redis = await startRedis(program ?? "", { password: "a-redis-password" });
    folder = mkdtempSync(join(tmpdir(), "gatehouse-doctor-"));
    password = join(folder, "password");
    writeFileSync(password, "a-redis-password", { mode: 0o600 });
  });
  afterAll(async () => {
    await redis.remove();
    rmSync(folder, { recursive: true });
  });

  async function check(variables: Record<string, string> = {}, now: () => number = Date.now) {
    const environment = { REDIS_URL: redis.url, REDIS_PASSWORD_FILE: password, ...variables };
    const environments = new Map([["gateway", environment] as const]);
    const findings = await checkRedisServers({ environments, home: undefined, findings: [] }, now);
    return findings
      .filter(({ result }) => result !== "ok")
      .map(({ result, area, found }) => `${result} ${area} ${found}`);
  }

  async function set(name: string, value: string): Promise<void> {
    const client = openRedis({ url: redis.url.replace("//", "//:a-redis-password@") }, "test", undefined);
    client.options.password = "a-redis-password";
    await client.connect();
    await client.config("SET", name, value);
    client.disconnect();
  }

  test("a server as Gatehouse needs it is found so; one that evicts, and one that is full, is not", async () => {
    await set("maxmemory-policy", "noeviction");
    expect(await check()).toEqual([]);
    await set("maxmemory-policy", "allkeys-lru");
    expect(await check()).toEqual(["failed redis maxmemory-policy allkeys-lru: a proof could be used twice"]);
    await set("maxmemory-policy", "noeviction");
    await set("maxmemory", "1mb");
    expect(await check()).toEqual([expect.stringMatching(/^warning redis \d+ of 1048576 bytes are used/)]);
    await set("maxmemory", "0");
  });

  test("the primary that sentinels name is looked at; without a majority nothing is", async () => {
    await set("maxmemory-policy", "noeviction");
    const sentinels = [await startFakeSentinel(redis.port), await startFakeSentinel(redis.port)];
    const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`);
    const named = { REDIS_URL: `redis+sentinel://${hosts.join()}/gatehouse`, REDIS_PLAINTEXT: "true" };
    expect(await check(named)).toEqual([]);
    for (const sentinel of sentinels.slice(1)) sentinel.says = undefined;
    expect(await check(named)).toEqual([
      `failed port gatehouse of the sentinels ${hosts.join(", ")} cannot be used (most of the sentinels do not name gatehouse together)`,
      "warning redis not checked: it does not answer",
    ]);
    for (const sentinel of sentinels) sentinel.close();
  });

  test("its clock is compared with ours", async () => {
    expect(await check({}, () => Date.now() - 5_000)).toEqual([
      expect.stringMatching(/^failed clock at least [45]\.\d s ahead of this machine$/),
    ]);
  });

  test("a wrong password, and a server that is away", async () => {
    const wrong = join(folder, "wrong");
    writeFileSync(wrong, "not-that-password", { mode: 0o600 });
    const away = "warning redis not checked: it does not answer";
    expect(await check({ REDIS_PASSWORD_FILE: wrong })).toEqual([
      expect.stringMatching(/^failed port .*WRONGPASS/),
      away,
    ]);
    expect(await check({ REDIS_URL: "redis://127.0.0.1:9" })).toEqual([
      expect.stringMatching(/^failed port 127\.0\.0\.1:9 cannot be used \(.*ECONNREFUSED/),
      away,
    ]);
  });
});
