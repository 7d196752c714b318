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
