import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { Secret } from "../config/config.ts";
import { connectPostgres } from "../database/postgres.ts";
import { createMetrics } from "../telemetry/metrics.ts";
import { watchDatabase } from "./watch-database.ts";

const silent = pino({ level: "silent" });
let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase("token-service");
});
afterAll(() => database.drop());

/** A process whose clock is off by so much. */
function watched(clockOffMs: number, clock = { stepMs: 0 }) {
  const sql = connectPostgres(
    {
      DATABASE_URL: database.url,
      DATABASE_PASSWORD_FILE: new Secret(database.password),
      DATABASE_POOL_SIZE: 3,
    },
    "test",
    silent,
  );
  const metrics = createMetrics("test");
  const stops: (() => Promise<void> | void)[] = [];
  let check: () => Promise<void> | void = () => undefined;
  const { look, assertClock } = watchDatabase({
    sql,
    poolSize: 3,
    metrics,
    logger: silent,
    now: () => Date.now() + clockOffMs + clock.stepMs,
    lifecycle: {
      addReadinessCheck: (_name, given) => {
        check = given;
      },
      onStop: (_name, stop) => void stops.push(stop),
    },
  });
  const metric = async (name: string) =>
    Number(new RegExp(`^${name}\\{[^}]*\\} (\\S+)$`, "m").exec(await metrics.render())?.[1]);
  const stop = async () => {
    for (const each of stops) await each();
    await sql.end({ timeout: 0 });
  };
  return { sql, look, assertClock, check: () => check(), metric, stop };
}

test("a process whose clock is the database's is ready; its connections are counted", async () => {
  const { look, check, metric, stop } = watched(0);
  await look();
  expect(Math.abs(await metric("gatehouse_database_clock_skew_seconds"))).toBeLessThan(2);
  expect(check).not.toThrow();
  expect(await metric("gatehouse_database_connections")).toBeGreaterThanOrEqual(1);
  expect(await metric("gatehouse_database_connections_max")).toBe(3);
  await stop();
  await expect.poll(() => metric("gatehouse_database_connections")).toBe(0);
});

test.each([600_000, -600_000])("a clock that is off by %i ms makes the process unready (P7)", async (off) => {
  const { look, check, metric, stop } = watched(off);
  await look();
  expect(await metric("gatehouse_database_clock_skew_seconds")).toBeCloseTo(-off / 1_000, -1);
  expect(check).toThrow(/clock is .* ahead of ours/);
  await stop();
});

test("a look that waited for its connection makes no clock look wrong", async () => {
  const { sql, look, metric, stop } = watched(0);
  const held = Array.from({ length: 3 }, () => sql`select pg_sleep(1.5)`.execute());
  await look(); // Some 1.5 s, of which it does not know when the clock was read.
  expect(await metric("gatehouse_database_clock_skew_seconds")).toBeCloseTo(0, 1);
  await Promise.all(held);
  await stop();
});

test("an unavailable database is counted, and its clock is unknown", async () => {
  const { sql, look, check, metric, stop } = watched(600_000);
  await look();
  await sql.end({ timeout: 0 });
  await expect(look()).rejects.toMatchObject({ code: "service_unavailable" });
  expect(await metric("gatehouse_database_probe_failures_total")).toBeGreaterThanOrEqual(1);
  expect(await metric("gatehouse_database_clock_skew_seconds")).toBeNaN();
  expect(check).not.toThrow();
  await stop();
});

test.each([1_200_000, -1_200_000])(
  "a step of %i ms is noticed at once, and so is the step back",
  async (step) => {
    const clock = { stepMs: 0 };
    const { look, assertClock, check, stop } = watched(0, clock);
    await look();
    expect(assertClock).not.toThrow();
    clock.stepMs = step;
    expect(assertClock).toThrow(expect.objectContaining({ code: "service_unavailable" }));
    expect(check).toThrow(/ahead of ours/);
    clock.stepMs = 0;
    expect(assertClock).not.toThrow();
    await stop();
  },
);

test("before the first look the clock is unknown", async () => {
  const { assertClock, stop } = watched(600_000);
  expect(assertClock).not.toThrow();
  await stop();
});
