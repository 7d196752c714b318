import { afterEach, beforeEach, expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import type { Collector } from "./collector.ts";
import type { CollectorName } from "./collector-store.ts";
import { Collectors, type OpenCollector } from "./collectors.ts";

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase("event-service");
});
afterEach(() => database.drop());

test("a collector that cannot be opened is a failure of its own: the others run", async () => {
  const pushed: string[] = [];
  const working: Collector = {
    name: "syslog",
    idleMs: 10,
    push: async () => void pushed.push("syslog"),
    close: () => Promise.resolve(),
  };
  const open = new Map<CollectorName, OpenCollector>([
    [
      "otlp",
      () => {
        throw new Error("SIEM_CA_FILE cannot be read");
      },
    ],
    ["syslog", () => working],
  ]);
  const reader = { countAfter: () => 0 } as never;
  const logger = createLogger("event-service", "warn", { write: () => undefined });
  const random = () => 0;
  const collectors = new Collectors({
    sql: database.sql,
    open,
    reader,
    now: () => new Date(),
    random,
    logger,
  });
  await expect(collectors.beat()).rejects.toThrow("SIEM_CA_FILE cannot be read");
  await expect.poll(() => pushed.length).toBeGreaterThan(0);
  expect(collectors.lags.map(({ collector }) => collector)).toEqual(["syslog"]);
  await collectors.stop();
});
