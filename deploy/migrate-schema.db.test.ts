import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { pendingMigrations } from "../service-kit/migrate.ts";
import { createTestDatabase, type TestDatabase } from "../tests/support/postgres.ts";
import { migrateSchema } from "./migrate-schema.ts";
import { databaseOf } from "./service-databases.ts";

const wanted = databaseOf("token-service");
let database: TestDatabase;
let root: string;
let directory: string;

beforeEach(async () => {
  database = await createTestDatabase("token-service");
  root = mkdtempSync(join(tmpdir(), "gatehouse-migrate-"));
  directory = join(root, "token-service", "migrations");
  cpSync(resolve(import.meta.dirname, "..", "token-service", "migrations"), directory, { recursive: true });
});
afterEach(async () => {
  rmSync(root, { recursive: true });
  await database.drop();
});

test("a migration run by four replicas concurrently runs once", async () => {
  writeFileSync(join(directory, "9999_new.sql"), "create table new_things (id int); select pg_sleep(0.2);");
  const goal = { owner: database.ownerSql, wanted, root };
  const ran = await Promise.all(Array.from({ length: 4 }, () => migrateSchema(goal)));
  expect(ran.flat()).toEqual(["9999_new.sql"]);
  expect(await database.sql`select * from new_things`).toEqual([]);
});

test("the service's role can read the pending migrations, and cannot mark them as run", async () => {
  const { sql } = database;
  expect(await pendingMigrations({ sql, directory })).toEqual([]);
  writeFileSync(join(directory, "9999_new.sql"), "select 1;");
  expect(await pendingMigrations({ sql, directory })).toEqual(["9999_new.sql"]);
  await expect(
    sql`insert into schema_migrations (name, sha256) values ('9999_new.sql', '')`,
  ).rejects.toMatchObject({ code: "42501" });
  await expect(sql`delete from schema_migrations`).rejects.toMatchObject({ code: "42501" });
});

test("a migration that was changed after it ran is refused by migration and by waiting", async () => {
  writeFileSync(join(directory, "0001_changed.sql"), "select 1;");
  await migrateSchema({ owner: database.ownerSql, wanted, root });
  writeFileSync(join(directory, "0001_changed.sql"), "select 2;");
  await expect(migrateSchema({ owner: database.ownerSql, wanted, root })).rejects.toThrow(/was changed/);
  await expect(pendingMigrations({ sql: database.sql, directory })).rejects.toThrow(/was changed/);
});
