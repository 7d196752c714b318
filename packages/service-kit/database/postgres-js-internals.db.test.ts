import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { Secret } from "../config/config.ts";
import { isLostTypeQuery } from "./database-failure.ts";
import { connectPostgres } from "./postgres.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase("token-service");
});
afterAll(() => database.drop());

test("a connection that is given up while the driver asks for types leaves no other failure unhandled", async () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown) => void unhandled.push(error);
  process.on("unhandledRejection", note);
  const login = {
    DATABASE_URL: database.url,
    DATABASE_PASSWORD_FILE: new Secret(database.password),
    DATABASE_POOL_SIZE: 1,
  };
  for (let round = 0; unhandled.length === 0 && round < 2_000; round += 1) {
    const sql = connectPostgres(login, "test", pino({ level: "silent" }));
    const statement = sql`select 1`.then(
      () => undefined,
      () => undefined,
    );
    await new Promise((resolve) => setTimeout(resolve, round % 20));
    await sql.end({ timeout: 0 });
    await statement;
  }
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", note);
  expect(unhandled).not.toEqual([]);
  expect(unhandled.filter((error) => !isLostTypeQuery(error))).toEqual([]);
});
