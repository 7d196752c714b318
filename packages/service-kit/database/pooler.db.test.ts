import { pino } from "pino";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { hasPgbouncer, type Pgbouncer, startPgbouncer } from "#tests/support/database/pgbouncer.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { ConfigError, Secret } from "../config/config.ts";
import { assertSessions, connectPostgres, type Sql } from "./postgres.ts";

const IGNORING =
  "ignore_startup_parameters = statement_timeout,lock_timeout,idle_in_transaction_session_timeout,jit";

let database: TestDatabase;
let pooler: Pgbouncer | undefined;
let opened: Sql[];

beforeEach(async () => {
  opened = [];
  database = await createTestDatabase("token-service");
});
afterEach(async () => {
  await Promise.all(opened.map((sql) => sql.end({ timeout: 0 })));
  await pooler?.stop();
  pooler = undefined;
  await database.drop();
});

function connect(url: string, isDeclared: boolean): Sql {
  const config = {
    DATABASE_URL: url,
    DATABASE_PASSWORD_FILE: new Secret(database.password),
    DATABASE_POOL_SIZE: 1,
    DATABASE_POOLER: isDeclared,
  };
  const sql = connectPostgres(config, "test", pino({ level: "silent" }));
  opened.push(sql);
  return sql;
}

test("a server's own connections have sessions", async () => {
  await assertSessions(connect(database.url, false));
});

describe.skipIf(!hasPgbouncer)("behind PgBouncer", () => {
  test.each([
    ["declared", true, []],
    ["undeclared", false, [IGNORING]],
  ])("which pools sessions, %s: they are kept", async (_how, isDeclared, changed) => {
    pooler = await startPgbouncer(database, changed);
    for (let i = 0; i < 5; i++) await assertSessions(connect(pooler.url, isDeclared));
  });

  test("which takes no time limits at the start: DATABASE_POOLER is asked for", async () => {
    pooler = await startPgbouncer(database);
    const refused = assertSessions(connect(pooler.url, false));
    await expect(refused).rejects.toThrow(ConfigError);
    await expect(refused).rejects.toThrow(/^DATABASE_POOLER: .* set true/);
  });

  test.each([
    ["transactions", true, ["pool_mode = transaction"]],
    ["transactions, undeclared", false, ["pool_mode = transaction", IGNORING]],
    ["transactions, over one connection", true, ["pool_mode = transaction", "default_pool_size = 1"]],
    ["transactions, in turn", true, ["pool_mode = transaction", "server_round_robin = 1"]],
    [
      "transactions, and resets sessions after each",
      true,
      ["pool_mode = transaction", "server_reset_query_always = 1"],
    ],
    ["statements", true, ["pool_mode = statement"]],
  ])("which pools %s: they are refused", async (_what, isDeclared, changed) => {
    pooler = await startPgbouncer(database, changed);
    const { host } = new URL(pooler.url);
    const refused = assertSessions(connect(pooler.url, isDeclared));
    await expect(refused).rejects.toThrow(ConfigError);
    await expect(refused).rejects.toThrow(`at or behind ${host} `);
  });
});
