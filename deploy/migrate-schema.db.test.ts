import { randomUUID } from "node:crypto";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { pendingMigrations } from "#kit/database/migrate.ts";
import { type Session, transaction } from "#kit/database/postgres.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { migrateSchema } from "./migrate-schema.ts";
import { databaseOf, SERVICE_DATABASES } from "./service-databases.ts";

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

test("token-service's role has the rights that its migration names, and none that tables have by default", async () => {
  const rows = await database.ownerSql<{ table: string; rights: string }[]>`
    select table_name as table, string_agg(lower(privilege_type), ', ' order by privilege_type) as rights
    from information_schema.role_table_grants
    where grantee = ${wanted.serviceRole} and table_schema = current_schema() group by 1`;
  expect(Object.fromEntries(rows.map(({ table, rights }) => [table, rights]))).toEqual({
    leaving_sessions: "delete, insert, select",
    part: "select, update",
    revocation_head: "select, update",
    revocations: "delete, insert, select",
    schema_migrations: "select",
    security_events: "delete, insert, select, update",
    sessions: "delete, insert, select, update",
    signing_keys: "delete, insert, select, update",
    slots: "select, update",
  });
});

test("a relation of another owner, such as an extension's, is no obstacle", async () => {
  const { ownerSql, sql } = database;
  await ownerSql.unsafe(
    `create schema elsewhere; grant usage, create on schema elsewhere to ${wanted.serviceRole}`,
  );
  await sql`create table elsewhere.belongs_to_another (id int)`;
  const tables = readFileSync(join(directory, "0001_tables.sql"), "utf8");
  await transaction(ownerSql, async (tx) => {
    await tx`set local search_path to elsewhere`;
    await tx.unsafe(tables);
  });
  expect(await sql`select from elsewhere.sessions`).toEqual([]);
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
  writeFileSync(join(directory, "0002_changed.sql"), "select 1;");
  await migrateSchema({ owner: database.ownerSql, wanted, root });
  writeFileSync(join(directory, "0002_changed.sql"), "select 2;");
  await expect(migrateSchema({ owner: database.ownerSql, wanted, root })).rejects.toThrow(/was changed/);
  await expect(pendingMigrations({ sql: database.sql, directory })).rejects.toThrow(/was changed/);
});

test("a database that was made before the first version is refused by migration and by waiting, and stays as it was", async () => {
  await database.ownerSql`update schema_migrations set name = '0001_sessions_keys_revocations.sql'`;
  for (const look of [
    () => migrateSchema({ owner: database.ownerSql, wanted, root }),
    () => pendingMigrations({ sql: database.sql, directory }),
  ]) {
    await expect(look()).rejects.toThrow(/made by a commit before version 0\.1\.0.* export its users/);
  }
  expect(await database.ownerSql`select name from schema_migrations`).toEqual([
    { name: "0001_sessions_keys_revocations.sql" },
  ]);
});

const CONCURRENT = `-- without a transaction
drop index concurrently if exists new_index;
create index concurrently new_index on sessions (ip);
`;
const hasIndex = async () => {
  const rows = await database.ownerSql`
    select from pg_index where indexrelid = to_regclass('new_index') and indisvalid`;
  return rows.length === 1;
};

/** Begins to make the index, which waits for the transaction that `end` ends. */
async function beginIndex() {
  writeFileSync(join(directory, "9999_new.sql"), CONCURRENT);
  const written = Promise.withResolvers<void>();
  const open = Promise.withResolvers<void>();
  const begun = transaction(database.sql, async (tx) => {
    await write(tx);
    written.resolve();
    await open.promise;
  });
  // Otherwise the index may be made before the transaction begins.
  await Promise.race([written.promise, begun]);
  const migrated = migrateSchema({ owner: database.ownerSql, wanted, root });
  await vi.waitFor(async () => expect(await database.waitingForLocks()).toBe(1), 20_000);
  const end = async () => {
    open.resolve();
    await begun;
  };
  return { migrated, end };
}
const write = (tx: Session) => tx`delete from sessions where id = ${randomUUID()}`;

test("while an index is made the running version writes to its table", async () => {
  const { migrated, end } = await beginIndex();
  const written = transaction(database.sql, async (tx) => {
    await tx`set local lock_timeout = '5s'`;
    await write(tx);
  });
  await written.finally(end);
  expect(await migrated).toEqual(["9999_new.sql"]);
  expect(await hasIndex()).toBe(true);
});

test("an index does not wait for a replica that waits for its migration", async () => {
  const { migrated, end } = await beginIndex();
  const other = migrateSchema({ owner: database.ownerSql, wanted, root });
  await vi.waitFor(async () => {
    const asking = await database.ownerSql`
      select from pg_stat_activity where datname = current_database() and query like '%advisory_lock(%' and pid <> pg_backend_pid()`;
    expect(asking).toHaveLength(1);
  }, 20_000);
  await end();
  expect(await Promise.all([migrated, other])).toEqual([["9999_new.sql"], []]);
});

test("a migration without a transaction that failed is run again from its beginning", async () => {
  writeFileSync(join(directory, "9999_new.sql"), `${CONCURRENT}select 1 / 0;`);
  const goal = { owner: database.ownerSql, wanted, root };
  await expect(migrateSchema(goal)).rejects.toThrow("9999_new.sql failed");
  expect(await pendingMigrations({ sql: database.sql, directory })).toEqual(["9999_new.sql"]);
  writeFileSync(join(directory, "9999_new.sql"), CONCURRENT);
  expect(await migrateSchema(goal)).toEqual(["9999_new.sql"]);
  expect(await hasIndex()).toBe(true);
});

test.each(SERVICE_DATABASES.map(({ service }) => service))(
  "a migration of %s makes an index of a table with rows concurrently",
  (service) => {
    const folder = resolve(import.meta.dirname, "..", service, "migrations");
    const locking = readdirSync(folder).filter((name) => {
      const text = readFileSync(join(folder, name), "utf8").replaceAll(/--.*$/gm, "");
      const made = [...text.matchAll(/create table (?:if not exists )?(\w+)/gi)].map(([, table]) => table);
      const indexed = [
        ...text.matchAll(/create (?:unique )?index (?!concurrently)\w+\s+on (?:only )?(\w+)/gi),
      ];
      return indexed.some(([, table]) => !made.includes(table));
    });
    expect(locking).toEqual([]);
  },
);
