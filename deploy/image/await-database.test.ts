import { afterEach, expect, test, vi } from "vitest";
import { openPool, type Sql } from "#kit/database/postgres.ts";
import { type FakePostgres, startFakePostgres } from "#tests/support/database/fake-postgres.ts";
import { freePort } from "#tests/support/system/free-port.ts";
import { awaitDatabase } from "./await-database.ts";

let sql: Sql | undefined;
let server: FakePostgres | undefined;

afterEach(async () => {
  await sql?.end({ timeout: 0 });
  server?.close();
});

function connect(port: number, maxWaitMs = 60_000): Sql {
  sql = openPool({
    url: `postgres://owner@127.0.0.1:${port}/any`,
    maxConnections: 1,
    connectTimeoutMs: 60_000,
    maxWaitMs,
    maxWaiting: 1,
    driver: { password: "any" },
  });
  return sql;
}

test("a database that starts later is awaited, and the wait is reported once", async () => {
  const port = await freePort();
  const logged: string[] = [];
  const asked = vi.fn(connect(port));
  const waiting = awaitDatabase(asked as unknown as Sql, {
    timeoutMs: 60_000,
    intervalMs: 1,
    log: (reason) => logged.push(reason),
  });
  await expect.poll(() => asked.mock.calls.length).toBeGreaterThan(3);
  server = await startFakePostgres(undefined, port);
  await waiting;
  expect(logged).toEqual([expect.stringContaining("ECONNREFUSED")]);
});

test("the wait ends after its timeout", async () => {
  const waiting = awaitDatabase(connect(await freePort(), 1_000), {
    timeoutMs: 100,
    intervalMs: 20,
    log: () => undefined,
  });
  await expect(waiting).rejects.toMatchObject({
    code: "service_unavailable",
    cause: { code: expect.stringMatching(/^(ECONNREFUSED|CONNECTION_TOO_LATE)$/) },
  });
});

test("permanent errors are thrown at once", async () => {
  server = await startFakePostgres(({ text }) => (text === "select 1" ? "denied" : undefined));
  const logged: string[] = [];
  const waiting = awaitDatabase(connect(server.port), {
    timeoutMs: 60_000,
    log: (reason) => logged.push(reason),
  });
  await expect(waiting).rejects.toMatchObject({ code: "42501" });
  expect(logged).toEqual([]);
});
