import { pino } from "pino";
import { expect, test } from "vitest";
import { startFakePostgres } from "#tests/support/database/fake-postgres.ts";
import { createTestCertificates } from "#tests/support/system/certificates.ts";
import { openConnections, openPool } from "../database/postgres.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { followReadiness, serveRpc } from "./service-process.ts";

/** Follows looks at the readiness, one a second. @returns what the server was told after each. */
function told(looks: string[][]): boolean[] {
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
  expect(told([[], away, away, away, away, [], away])).toEqual([true, true, true, false, false, true, true]);
});

test("short spells do not add up", () => {
  const away = ["clock"];
  expect(told([away, away, [], away, away, []])).toEqual([true, true, true, true, true, true]);
});

test("a process that starts or drains goes on serving", () => {
  const looks = [["starting"], ["starting"], ["starting"], ["draining"], ["draining"], ["draining"]];
  expect(told(looks)).toEqual(looks.map(() => true));
});

test("no service goes on to say that it is ready before two connections to each of its databases are open", async () => {
  const certificates = await createTestCertificates();
  let accepted = 0;
  let asked = 0;
  const server = await startFakePostgres(({ text }) => {
    if (text !== "start") return undefined;
    asked += 1;
    if (accepted === 0) return "nothing";
    accepted -= 1;
    return undefined;
  });
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
  const service = {
    logger: pino({ level: "silent" }),
    metrics: createMetrics("token-service"),
    certificate: certificates.of("token-service"),
    lifecycle: {
      onStop: (_: string, stop: () => void) => stops.push(stop),
      unreadyReasons: async () => ["starting"],
    } as never,
  };
  const addresses = { LISTEN_ADDRESS: "127.0.0.1:0", HEALTH_ADDRESS: "127.0.0.1:0" };
  const config = { ...addresses, SHUTDOWN_GRACE_MS: 0, GRPC_REFLECTION: false };
  let isServing = false;
  const serving = serveRpc(service, config, { databases: pools, register: () => undefined }).then(() => {
    isServing = true;
  });
  // A database that is slow to accept, and then accepts all but one.
  await expect.poll(() => asked, { timeout: 10_000 }).toBeGreaterThan(4);
  accepted = 3;
  await expect.poll(() => accepted, { timeout: 10_000 }).toBe(0);
  const before = asked;
  await expect.poll(() => asked, { timeout: 10_000 }).toBeGreaterThan(before + 1);
  expect(isServing).toBe(false);
  accepted = 1_000;
  await serving;
  expect(pools.map(openConnections)).toEqual([2, 2]);
  for (const stop of stops.reverse()) await stop();
  await Promise.all(pools.map((sql) => sql.end({ timeout: 0 })));
  server.close();
  await certificates.remove();
});
