import { globSync, readFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { describe, expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "..", "..");

/** Makes the tables of the first version. Those after it run while the version before serves. */
const FIRST = "0001_tables.sql";

/** The first line of a migration that takes away what an older version needs. */
const CONTRACT = /^-- contract: safe once nothing runs that is older than (\d+\.\d+\.\d+)\n/;

const NAME = String.raw`(?:if (?:not )?exists )?(?:only )?([\w."]+)`;
const PATTERNS: readonly { problem: string; statement: RegExp }[] = [
  {
    problem: "drops what the version before uses",
    statement:
      /^drop (?:table|view|materialized view|type|domain|schema|sequence|function|procedure|trigger)\b/,
  },
  {
    problem: "drops what the version before uses",
    statement:
      /^alter (?:table|view|type|domain)\b.*\bdrop (?!constraint|not null|expression|identity|default)/,
  },
  { problem: "renames what the version before uses", statement: /^alter\b.*\brename\b/ },
  { problem: "renames what the version before uses", statement: /^alter\b.*\bset schema\b/ },
  {
    problem: "changes a type that the version before uses",
    statement: /^alter table\b.*\balter (?:column )?[\w"]+ (?:set data )?type\b/,
  },
  {
    problem: "demands what the version before does not write",
    statement: /^alter table\b.*\balter (?:column )?[\w"]+ (?:set not null|drop default)\b/,
  },
  { problem: "takes a right that the version before uses", statement: /^revoke\b/ },
  { problem: "deletes what the version before has written", statement: /^(?:truncate|delete from)\b/ },
];
/** One addition of a column, up to the next action of the statement. */
const NEW_COLUMN =
  /\badd (?:column )?(?!constraint|check|unique|primary|foreign|exclude)(?:if not exists )?[\w"]+ (.*?)(?=, (?:add|alter|drop|validate)\b|$)/g;
const NEW_CONSTRAINT = /\badd (?:constraint [\w"]+ )?(?:check|unique|primary key|foreign key|exclude)\b/;

/** @returns what in a migration the version before cannot live with. */
function problemsOf(text: string): string[] {
  const statements = text
    .replaceAll(/--.*$/gm, "")
    .replaceAll(/'(?:[^']|'')*'/g, "''")
    .toLowerCase()
    .split(";")
    .map((statement) => statement.replaceAll(/\s+/g, " ").trim());
  const created = new Set(
    statements.flatMap((statement) => new RegExp(`^create table ${NAME}`).exec(statement)?.[1] ?? []),
  );
  return statements.flatMap((statement) => problemsOfStatement(statement, created));
}

function problemsOfStatement(statement: string, created: ReadonlySet<string>): string[] {
  const table = new RegExp(`^alter table ${NAME}`).exec(statement)?.[1];
  if (table !== undefined && created.has(table)) return [];
  const revoked = /^revoke\b.*? on (?:table )?([\w", ]+) from\b/.exec(statement)?.[1]?.split(", ");
  if (revoked?.every((name) => created.has(name))) return [];
  const found = PATTERNS.filter((pattern) => pattern.statement.test(statement)).map(({ problem }) => problem);
  if (table !== undefined) {
    const columns = [...statement.matchAll(NEW_COLUMN)].map(([, definition = ""]) => definition);
    if (
      columns.some(
        (definition) => /\bnot null\b/.test(definition) && !/\bdefault\b|\bgenerated\b/.test(definition),
      )
    )
      found.push("demands what the version before does not write");
    if (NEW_CONSTRAINT.test(statement)) found.push("constrains what the version before writes");
  }
  const unique = new RegExp(
    `^create unique index (?:concurrently )?(?:if not exists )?[\\w"]+ on ${NAME}`,
  ).exec(statement)?.[1];
  if (unique !== undefined && !created.has(unique)) found.push("constrains what the version before writes");
  return found;
}

const isReleased = (version: string) =>
  new RegExp(`^## \\[${RegExp.escape(version)}\\](?!.*not released)`, "m").test(
    readFileSync(join(ROOT, "CHANGELOG.md"), "utf8"),
  );

describe("a migration runs while the version before serves", () => {
  const migrations = globSync("*-service/migrations/*.sql", { cwd: ROOT });

  test("there are migrations of every service that has a database", () => {
    const services = new Set(migrations.map((path) => path.split("/")[0]));
    expect([...services].sort()).toEqual([
      "audit-service",
      "event-service",
      "identity-service",
      "token-service",
    ]);
  });

  const isLater = (path: string) => basename(path) !== FIRST;
  test.each(migrations.filter(isLater))("%s expands, or says from which release on it is safe", (path) => {
    const text = readFileSync(join(ROOT, path), "utf8");
    const [, from] = CONTRACT.exec(text) ?? [];
    if (from !== undefined) expect(isReleased(from), `${from} is a release in CHANGELOG.md`).toBe(true);
    else expect(problemsOf(text)).toEqual([]);
  });

  test.each([
    "create table a (id uuid primary key, name text not null)",
    "create table a (id uuid); alter table a alter column id set not null",
    "create table if not exists a (id uuid); create unique index a_id on a (id)",
    "create table a (id uuid); create table b (id uuid); revoke all on a, b from gatehouse_token",
    "alter table users add column nick text",
    "alter table users add column nick text not null default '', add column age integer",
    "alter table users alter column nick drop not null",
    "alter table users drop constraint users_check",
    "alter table users validate constraint users_check",
    "create index concurrently a on users (id)",
    "drop index concurrently if exists a",
    "-- drop table users\ncomment on table users is 'drop table; users'",
    "grant update (nick) on users to gatehouse_identity",
  ])("allowed: %s", (sql) => {
    expect(problemsOf(sql)).toEqual([]);
  });

  test.each([
    ["drop table users", "drops"],
    ["alter table users drop column nick", "drops"],
    ["alter table users\n  add column a text,\n  drop if exists nick", "drops"],
    ["drop trigger months_noted on leaves", "drops"],
    ["alter table users rename to people", "renames"],
    ["alter table users rename column nick to name", "renames"],
    ["alter table users rename nick to name", "renames"],
    ["alter table users set schema old", "renames"],
    ["alter table users alter column nick type varchar(10)", "changes a type"],
    ["alter table only users alter nick set data type bigint", "changes a type"],
    ["alter table users alter column nick set not null", "demands"],
    ["alter table users alter nick drop default", "demands"],
    ["alter table users add column a text not null", "demands"],
    ["alter table users add a text not null, add column b text not null default ''", "demands"],
    ["alter table users add column b text default '', add column a text not null", "demands"],
    ["alter table users add constraint c check (nick <> '') not valid", "constrains"],
    ["alter table users add unique (nick)", "constrains"],
    ["create unique index concurrently if not exists a on users (nick)", "constrains"],
    ["revoke update on users from gatehouse_identity", "takes a right"],
    ["truncate users", "deletes"],
  ])("refused: %s", (sql, problem) => {
    expect(problemsOf(sql)).toEqual([expect.stringMatching(`^${problem}`)]);
  });
});
