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

test("a collector whose file is away is shown as failing, keeps no other one waiting, and runs when the file is back", async () => {
  const pushed: string[] = [];
  let isAway = true;
  const collector = (name: CollectorName): Collector => ({
    ...{ name, idleMs: 10, close: () => Promise.resolve() },
    push: async () => void pushed.push(name),
  });
  const open = new Map<CollectorName, OpenCollector>([
    [
      "otlp",
      () => {
        if (isAway) throw new Error("SIEM_CA_FILE cannot be read");
        return collector("otlp");
      },
    ],
    ["syslog", () => collector("syslog")],
  ]);
  const reader = { countAfter: () => 0 } as never;
  const logger = createLogger("event-service", "warn", { write: () => undefined });
  // Without pauses between attempts.
  const random = () => -2;
  const collectors = new Collectors({
    sql: database.sql,
    open,
    reader,
    now: () => new Date(),
    random,
    logger,
  });
  await collectors.beat();
  const problems = async () => [
    ...(await database.ownerSql`select problem from siem_collectors where failing_since is not null`),
  ];
  await expect.poll(problems).toEqual([{ problem: "its settings cannot be used" }]);
  await expect.poll(() => pushed).toContain("syslog");
  expect(collectors.lags.map(({ collector }) => collector).toSorted()).toEqual(["otlp", "syslog"]);
  isAway = false;
  await expect.poll(() => pushed).toContain("otlp");
  await expect.poll(problems).toEqual([]);
  await collectors.stop();
});
