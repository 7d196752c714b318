import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { hasPgbouncer, startPgbouncer } from "#tests/support/database/pgbouncer.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { checkDatabases } from "./databases.ts";

let database: TestDatabase;
let folder: string;

beforeAll(async () => {
  database = await createTestDatabase("token-service");
  folder = mkdtempSync(join(tmpdir(), "gatehouse-doctor-"));
  writeFileSync(join(folder, "password"), database.password, { mode: 0o600 });
});
afterAll(async () => {
  await database.drop();
  rmSync(folder, { recursive: true });
});

/** What is said of migrations, or as `about` says. */
async function check(about = "migrat", changed: Record<string, string> = {}): Promise<string[]> {
  const environment = {
    DATABASE_URL: database.url,
    DATABASE_PASSWORD_FILE: join(folder, "password"),
    ...changed,
  };
  const environments = new Map([["token-service", environment] as const]);
  const findings = await checkDatabases({ environments, home: undefined, findings: [] }, Date.now);
  return findings
    .filter(({ area, found }) => area === "database" && found.includes(about))
    .map(({ result, subject, found, action }) => `${result} ${subject}: ${found}; ${action}`);
}

test("a database whose migrations have run, of which one is missing, and without any", async () => {
  const { ownerSql } = database;
  expect(await check()).toEqual(["ok token-service: every migration of this program's version has run; "]);
  const run = "Run the migrations: docs/operations/upgrade.md";
  const [last] = await ownerSql<{ name: string }[]>`
    delete from schema_migrations where name = (select max(name) from schema_migrations) returning name`;
  expect(await check()).toEqual([`failed token-service: not migrated: ${last?.name}; ${run}`]);
  await ownerSql`drop table schema_migrations`;
  expect(await check()).toEqual([`failed token-service: not migrated: no migration has run; ${run}`]);
});

test("commits that are answered before a standby has them are a failure", async () => {
  const { ownerSql } = database;
  const [row] = await ownerSql<{ name: string }[]>`select quote_ident(current_database()) as name`;
  const said = async (value: string) => {
    await ownerSql.unsafe(`alter database ${row?.name} set synchronous_commit = ${value}`);
    return check(`synchronous_commit is ${value}`);
  };
  expect(await said("local")).toEqual([
    expect.stringMatching(/^failed token-service: synchronous_commit is local; Set synchronous_commit = on/),
  ]);
  expect(await said("on")).toEqual([]);
});

test("whoever may change a part of the audit log's tables is named with it", async () => {
  const audit = await createTestDatabase("audit-service");
  try {
    const file = join(folder, "audit-password");
    writeFileSync(file, audit.password, { mode: 0o600 });
    const environment = { DATABASE_URL: audit.url, DATABASE_PASSWORD_FILE: file };
    const environments = new Map([["audit-service", environment] as const]);
    const rights = async () =>
      (await checkDatabases({ environments, home: undefined, findings: [] }, Date.now))
        .filter(({ subject }) => subject === "audit log")
        .map(({ result, found }) => `${result}: ${found}`);
    expect(await rights()).toEqual(["ok: the role may add to it and change nothing"]);
    await audit.ownerSql`grant delete on leaves_below_268435456 to gatehouse_audit`;
    await audit.ownerSql`grant update on log_entries_default to gatehouse_audit`;
    expect(await rights()).toEqual([
      "failed: the role may change leaves_below_268435456, log_entries_default",
    ]);
  } finally {
    await audit.drop();
  }
});

test("the databases of further parts of the users are looked at like the first, and a wrong file is named", async () => {
  const [first, second] = await Promise.all([
    createTestDatabase("token-service"),
    createTestDatabase("token-service"),
  ]);
  const file = join(folder, "parts.yaml");
  const write = (url: string) => writeFileSync(file, `parts:\n  - number: 3\n    url: ${url}\n`);
  try {
    write(second.url.replace(/\/\/.*@/, "//"));
    await second.ownerSql`drop table schema_migrations`;
    expect(await check("migrat", { DATABASE_URL: first.url, PARTS_FILE: file })).toEqual([
      "ok token-service: every migration of this program's version has run; ",
      "failed token-service, part 3: not migrated: no migration has run; Run the migrations: docs/operations/upgrade.md",
    ]);
    write("nowhere");
    expect(await check("postgres://host", { PARTS_FILE: file })).toEqual([
      expect.stringMatching(
        /^warning token-service: not checked: PARTS_FILE: .*line 3, parts.0.url: must be/,
      ),
    ]);
  } finally {
    await Promise.all([first.drop(), second.drop()]);
  }
});

test.skipIf(!hasPgbouncer)(
  "a pooler of transactions, also one that became so while services run",
  async () => {
    const pooler = await startPgbouncer(database, ["pool_mode = transaction"]);
    const found = await check("pooler", { DATABASE_URL: pooler.url, DATABASE_POOLER: "true" });
    expect(found).toEqual([
      expect.stringMatching(/^failed token-service: DATABASE_URL: a pooler .*; Set DATABASE_POOLER=true/),
    ]);
    await pooler.stop();
  },
);
