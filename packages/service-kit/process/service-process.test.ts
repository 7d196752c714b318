import { pino } from "pino";
import { expect, test } from "vitest";
import { startFakePostgres } from "#tests/support/database/fake-postgres.ts";
import { createTestCertificates } from "#tests/support/system/certificates.ts";
import { ConfigError } from "../config/config.ts";
import { openConnections, openPool } from "../database/postgres.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { followReadiness, ServiceProcess } from "./service-process.ts";

/** Follows looks at the readiness, one a second. @returns what the server was set to after each. */
function served(looks: string[][]): boolean[] {
  let nowMs = 0;
  const serving: boolean[] = [];
  const server = { setServing: async (isServing: boolean) => void serving.push(isServing) };
  const follow = followReadiness(server, pino({ level: "silent" }), () => nowMs);
  for (const reasons of looks) {
    follow(reasons);
    nowMs += 1_000;
  }
  return serving;
}

test("a server takes no calls once its process has been unready for two seconds, and takes them when it is ready", () => {
  const away = ["database"];
  expect(served([[], away, away, away, away, [], away])).toEqual([
    true,
    true,
    true,
    false,
    false,
    true,
    true,
  ]);
});

test("short spells do not add up", () => {
  const away = ["clock"];
  expect(served([away, away, [], away, away, []])).toEqual([true, true, true, true, true, true]);
});

test("a process that starts or drains goes on serving", () => {
  const looks = [["starting"], ["starting"], ["starting"], ["draining"], ["draining"], ["draining"]];
  expect(served(looks)).toEqual(looks.map(() => true));
});

/** Serves with two pools of a database. @param accepts whether the database accepts the next connection. */
async function serve(accepts: () => boolean) {
  const certificates = await createTestCertificates();
  const server = await startFakePostgres(({ text }) =>
    text === "start" && !accepts() ? "nothing" : undefined,
  );
  const pools = [1, 2].map(() =>
    openPool({
      url: server.url,
      maxConnections: 3,
      connectTimeoutMs: 100,
      maxWaitMs: 100,
      maxWaiting: 10,
      driver: { password: "any" },
    }),
  );
  const stops: (() => Promise<void> | void)[] = [];
  const service = new ServiceProcess({
    logger: pino({ level: "silent" }),
    metrics: createMetrics("token-service"),
    certificate: certificates.of("token-service"),
    lifecycle: {
      onStop: (_: string, stop: () => void) => stops.push(stop),
      unreadyReasons: async () => ["starting"],
    } as never,
  });
  const addresses = { LISTEN_ADDRESS: "127.0.0.1:0", HEALTH_ADDRESS: "127.0.0.1:0" };
  const config = { ...addresses, SHUTDOWN_GRACE_MS: 0, GRPC_REFLECTION: false };
  return {
    server,
    pools,
    serving: () => service.serveRpc(config, { databases: pools, register: () => undefined }),
    async stop() {
      for (const stop of stops.reverse()) await stop();
      await Promise.all(pools.map((sql) => sql.end({ timeout: 0 })));
      server.close();
      await certificates.remove();
    },
  };
}

test("no service goes on to say that it is ready before two connections to each of its databases are open", async () => {
  let accepted = 0;
  let asked = 0;
  const { pools, serving, stop } = await serve(() => {
    asked += 1;
    if (accepted === 0) return false;
    accepted -= 1;
    return true;
  });
  let isServing = false;
  const served = serving().then(() => {
    isServing = true;
  });
  // A database that is slow to accept, and then accepts all but one. Two connections look at its sessions before, once for both pools.
  await expect.poll(() => asked, { timeout: 10_000 }).toBeGreaterThan(4);
  accepted = 5;
  await expect.poll(() => accepted, { timeout: 10_000 }).toBe(0);
  const before = asked;
  await expect.poll(() => asked, { timeout: 10_000 }).toBeGreaterThan(before + 1);
  expect(isServing).toBe(false);
  accepted = 1_000;
  await served;
  expect(pools.map(openConnections)).toEqual([2, 2]);
  await stop();
});

test("a service behind a pooler that shares sessions does not try again", async () => {
  const { server, serving, stop } = await serve(() => true);
  server.sessionOf = () => 0;
  await expect(serving()).rejects.toThrow(ConfigError);
  await stop();
});
