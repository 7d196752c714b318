import { connect, createServer, type Server, type Socket } from "node:net";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { Secret } from "../config/config.ts";
import { connectPostgres, type Sql } from "./postgres.ts";

let database: TestDatabase;
let proxy: Server;
let sql: Sql;
/** Connections through the proxy, both ends. */
let pairs: [Socket, Socket][];

beforeEach(async () => {
  database = await createTestDatabase("token-service");
  const target = new URL(database.url);
  const { hostname, port } = target;
  pairs = [];
  proxy = createServer((inward) => {
    const outward = connect(Number(port), hostname);
    pairs.push([inward, outward]);
    for (const [from, to] of [
      [inward, outward],
      [outward, inward],
    ] as const) {
      from.on("data", (chunk) => to.write(chunk));
      from.on("close", () => to.destroy());
      from.on("error", () => to.destroy());
    }
  });
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve));
  target.port = String((proxy.address() as { port: number }).port);
  sql = connectPostgres(
    {
      DATABASE_URL: target.href,
      DATABASE_PASSWORD_FILE: new Secret(database.password),
      DATABASE_POOL_SIZE: 1,
    },
    "test",
    pino({ level: "silent" }),
  );
});

afterEach(async () => {
  await sql.end({ timeout: 0 });
  for (const pair of pairs) for (const socket of pair) socket.destroy();
  proxy.close();
  await database.drop();
});

test.each([
  ["given at its start", false, "client"],
  ["set by statements, behind a pooler", true, "session"],
])(
  "every connection has a name and time-outs, %s; server notices are debug lines",
  async (_how, isPooler, source) => {
    const lines: string[] = [];
    const service = connectPostgres(
      {
        DATABASE_URL: database.url,
        DATABASE_PASSWORD_FILE: new Secret(database.password),
        DATABASE_POOL_SIZE: 1,
        DATABASE_POOLER: isPooler,
      },
      "test-service",
      pino({ level: "debug" }, { write: (line: string) => void lines.push(line) }),
      { session: { idle_session_timeout: 7_000 } },
    );
    const settings = await service`
    select name, setting from pg_settings where source in ('client', ${source}) and name in (
      'application_name', 'statement_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout',
      'idle_session_timeout', 'jit')`;
    expect(Object.fromEntries(settings.map(({ name, setting }) => [name, setting]))).toEqual({
      application_name: "test-service",
      statement_timeout: "2000",
      lock_timeout: "1000",
      idle_in_transaction_session_timeout: "5000",
      idle_session_timeout: "7000",
      jit: "off",
    });
    await service`do $$ begin raise notice 'look at this'; end $$`;
    await service.end();
    expect(lines.map((line) => JSON.parse(line) as unknown)).toMatchObject([
      { level: 20, notice: "look at this" },
    ]);
  },
);

test("JIT is off in a service's session, whatever the database's own default", async () => {
  await database.ownerSql.unsafe(`alter database ${new URL(database.url).pathname.slice(1)} set jit = on`);
  const [owner] =
    await database.ownerSql`select setting from pg_db_role_setting, unnest(setconfig) as setting`;
  expect(owner).toEqual({ setting: "jit=on" });
  const [session] = await sql`show jit`;
  expect(session).toEqual({ jit: "off" });
});

const one = () => sql`select 1 as one`.then((rows) => rows.length);

test("a silently dead connection is unavailable in time and is replaced automatically", {
  tags: "exhaustive",
  timeout: 150_000,
}, async () => {
  const isAnswered = () => expect.poll(() => one().catch(() => 0), { timeout: 60_000 }).toBe(1);
  await isAnswered();
  const known = pairs.length;
  for (const [inward, outward] of pairs) {
    inward.pause(); // what is sent is never answered, and nobody says so
    outward.pause();
  }
  await expect(one()).rejects.toMatchObject({ code: "service_unavailable" });
  await isAnswered();
  expect(pairs.length).toBeGreaterThan(known);
});

test("an unreachable, unknown or refusing database is unavailable, not a defect", async () => {
  const port = new URL(database.url).port;
  for (const [url, password] of [
    [`postgres://gatehouse_token@127.0.0.1:${port}/nowhere`, database.password],
    [database.url, "wrong"],
    ["postgres://gatehouse_token@127.0.0.1:1/x", "any"],
  ] as const) {
    const config = { DATABASE_URL: url, DATABASE_PASSWORD_FILE: new Secret(password), DATABASE_POOL_SIZE: 1 };
    const other = connectPostgres(config, "test", pino({ level: "silent" }));
    await expect(other`select 1`).rejects.toMatchObject({
      code: "service_unavailable",
    });
    await other.end({ timeout: 0 });
  }
});
