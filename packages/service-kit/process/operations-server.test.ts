import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { resolve } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLogger } from "../telemetry/logger.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { createLogLevelSwitch, startOperationsServer } from "./operations-server.ts";

const started: { close(): void }[] = [];
afterEach(() => {
  for (const server of started.splice(0)) server.close();
});

async function operations(reasons: string[] = []) {
  const logger = createLogger("test", "info", { write: () => {} });
  const lifecycle = { unreadyReasons: async () => reasons };
  const server = await startOperationsServer("0.0.0.0:0", {
    lifecycle,
    metrics: createMetrics("test", { ofProcess: true }),
    logger,
  });
  started.push(server);
  const { port } = server.address() as AddressInfo;
  return { logger, at: (path: string, host = "127.0.0.1") => `http://${host}:${port}${path}` };
}

test("the log level is changed from the process's own host", async () => {
  const { logger, at } = await operations();
  const changed = await fetch(at("/log-level?level=debug&minutes=5"), { method: "PUT" });
  expect(changed.status).toBe(200);
  expect(logger.level).toBe("debug");
  expect(await (await fetch(at("/log-level"))).text()).toMatch(/^debug until 20.+Z, then info\n$/);
});

const outside = Object.values(networkInterfaces())
  .flat()
  .find((found) => found?.family === "IPv4" && !found.internal)?.address;

test.skipIf(outside === undefined)("and not from another host", async () => {
  const { logger, at } = await operations();
  const refused = await fetch(at("/log-level?level=debug", outside), { method: "PUT" });
  expect(refused.status).toBe(403);
  expect(logger.level).toBe("info");
});

test("says which version runs", async () => {
  const { at } = await operations();
  const { version } = JSON.parse(
    readFileSync(resolve(import.meta.dirname, "..", "..", "..", "package.json"), "utf8"),
  );
  const answered = await fetch(at("/version"));
  expect(answered.headers.get("content-type")).toBe("application/json");
  // The revision is a file of the image.
  expect(await answered.json()).toEqual({ version, revision: "unknown", node: process.versions.node });
});

test("an unknown log level gets a clear answer", async () => {
  const { at } = await operations();
  const refused = await fetch(at("/log-level?level=loud"), { method: "PUT" });
  expect(refused.status).toBe(400);
  expect(await refused.text()).toBe("level must be one of trace, debug, info, warn, error, fatal\n");
});

test("health, readiness with reasons, metrics; anything else is not there", async () => {
  const { at } = await operations(["database: away"]);
  const status = async (path: string, method = "GET") => (await fetch(at(path), { method })).status;
  expect(await status("/healthz")).toBe(200);
  expect(await status("/readyz")).toBe(503);
  expect(await (await fetch(at("/readyz"))).text()).toBe("database: away\n");
  expect(await (await fetch(at("/metrics"))).text()).toContain("process_cpu_seconds_total");
  expect(await status("/")).toBe(404);
  expect(await status("/metrics", "POST")).toBe(405);
});

beforeEach(() => {
  vi.useFakeTimers({ now: Date.UTC(2026, 10, 21) });
});
afterEach(() => {
  vi.useRealTimers();
});

function quietLogger() {
  return createLogger("test", "info", { write: () => {} });
}

test("a level holds for its minutes; then the configured one is back", () => {
  const logger = quietLogger();
  const logLevel = createLogLevelSwitch(logger);

  expect(logLevel.set("debug", "5")).toEqual({
    isChanged: true,
    message: "debug until 2026-11-21T00:05:00.000Z, then info",
  });
  expect(logger.level).toBe("debug");
  vi.advanceTimersByTime(5 * 60_000 - 1);
  expect(logger.level).toBe("debug");
  vi.advanceTimersByTime(1);
  expect(logger.level).toBe("info");
  expect(logLevel.describe()).toBe("info");
});

test("the last change counts: an earlier one's end does not cut it short", () => {
  const logger = quietLogger();
  const logLevel = createLogLevelSwitch(logger);

  logLevel.set("debug", "5");
  logLevel.set("trace", "60");
  vi.advanceTimersByTime(6 * 60_000);
  expect(logger.level).toBe("trace");
  logLevel.set("info", null);
  expect(logLevel.describe()).toBe("info");
});

test.each([
  { level: null, minutes: null },
  { level: "loud", minutes: null },
  { level: "debug", minutes: "0" },
  { level: "debug", minutes: "1441" },
  { level: "debug", minutes: "1.5" },
  { level: "debug", minutes: "soon" },
])("level $level for $minutes minutes is refused and changes nothing", ({ level, minutes }) => {
  const logger = quietLogger();
  const answered = createLogLevelSwitch(logger).set(level, minutes);
  expect(answered.isChanged).toBe(false);
  expect(logger.level).toBe("info");
});
