import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { emptyLog } from "#tests/support/system/audit-log.ts";
import { cleanEntry } from "./clean-entry.ts";
import { asSent, producedEntry, sampleEntry, sampleOrigin, store } from "./entry.fixture.ts";
import type { LogEntry } from "./entry.ts";
import { selectEntries } from "./entry-store.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase("audit-service");
});

afterAll(() => database.drop());

beforeEach(async () => {
  await emptyLog(database.ownerSql);
});

test("an entry is read as it was stored", async () => {
  const produced = producedEntry(1);
  expect(await store(database.sql, [produced])).toBe(1);
  const [stored] = await selectEntries(database.sql, {}, 10);
  expect(asSent(stored?.entry as LogEntry)).toEqual(produced.entry);
  expect(stored?.entry).toMatchObject({ sequence: 0, producer: "gateway", receivedAt: expect.any(Date) });
});

test("the largest values and unusual characters are read as they were stored", async () => {
  const entry = sampleEntry({
    occurredAt: new Date("9999-12-31T23:59:59.999Z"),
    userAgent: `"'\\ \ufffd 👩‍💻 {}[],$1`,
    latencyUs: Number.MAX_SAFE_INTEGER,
    httpStatus: 999,
  });
  await store(database.sql, [{ entry, origin: sampleOrigin(Number.MAX_SAFE_INTEGER) }]);
  expect(asSent((await selectEntries(database.sql, {}, 1))[0]?.entry as LogEntry)).toEqual(entry);
});

test("any cleaned entry can be stored", async () => {
  const everything = Array.from({ length: 0x3000 }, (_, code) => String.fromCharCode(code)).join("");
  const texts = [
    "\u0000",
    "\ud83d",
    "\udc69\ud83d",
    "\\u0000",
    "\\",
    '"',
    ...(everything.match(/[\s\S]{1,200}/g) ?? []),
  ];
  const entries = texts.map((resource, index) =>
    cleanEntry(sampleEntry({ id: "", resource }), sampleOrigin(index + 1), new Date()),
  );
  expect(await store(database.sql, entries)).toBe(texts.length);
});

test("entries get positions in the order they are given", async () => {
  const entries = Array.from({ length: 500 }, (_, index) =>
    producedEntry(index + 1, { resource: String(index) }),
  );
  await store(database.sql, entries);
  const stored = await selectEntries(database.sql, {}, 500);
  expect(stored.map(({ entry }) => Number(entry.resource)).reverse()).toEqual(
    Array.from({ length: 500 }, (_, index) => index),
  );
});

test("a repetition does not change the stored entry, also within one insert", async () => {
  const first = producedEntry(1, { action: "auth.login" });
  await store(database.sql, [first]);
  const again = producedEntry(1, { action: "something else" });
  const second = producedEntry(2);
  expect(await store(database.sql, [again, second, second])).toBe(1);
  const stored = await selectEntries(database.sql, {}, 10);
  expect(stored.map(({ entry }) => asSent(entry))).toEqual([second.entry, first.entry]);
});

test("two replicas that store the same entries concurrently store them once", async () => {
  const entries = Array.from({ length: 200 }, (_, index) => producedEntry(index + 1));
  const counts = await Promise.all(Array.from({ length: 3 }, () => store(database.sql, entries)));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(200);
  expect(await selectEntries(database.sql, {}, 1_000)).toHaveLength(200);
});

const LOG_TABLES = {
  log_entries: "action = ''",
  leaves: "position = 1",
  subtrees: "level = 8",
  checkpoints: "note = ''",
  removals: "note = ''",
};

test.each(
  Object.entries(LOG_TABLES).flatMap(([table, change]) => [
    [table, "update", `update ${table} set ${change}`],
    [table, "delete", `delete from ${table}`],
    [table, "truncate", `truncate ${table}`],
    [table, "rename", `alter table ${table} rename to old_${table}`],
    [table, "disable the trigger of", `alter table ${table} disable trigger append_only`],
    [table, "drop", `drop table ${table}`],
  ]),
)("in %s, the service's role cannot %s anything", async (_table, _name, statement) => {
  await store(database.sql, [producedEntry(1)]);
  await expect(database.sql.unsafe(statement)).rejects.toMatchObject({ code: "42501" });
});

test.each([
  ["log_entries", "update log_entries set action = 'harmless'"],
  ["log_entries", "update log_entries set action = 'harmless' where false"],
  ["log_entries", "delete from log_entries"],
  ["log_entries", "truncate log_entries"],
  ["a partition", "update PARTITION set action = 'harmless'"],
  ["a partition", "delete from PARTITION"],
  ["a partition", "truncate PARTITION"],
  ["leaves", "delete from leaves"],
  ["leaves", "truncate leaves"],
  ["subtrees", "delete from subtrees"],
  ["checkpoints", "update checkpoints set note = ''"],
  ["removals", "truncate removals"],
])("even the owner cannot change %s: %s", async (_table, statement) => {
  await store(database.sql, [producedEntry(1)]);
  const [row] = await database.ownerSql`select tableoid::regclass::text as name from log_entries`;
  const owned = statement.replace("PARTITION", row?.name ?? "");
  await expect(database.ownerSql.unsafe(owned)).rejects.toMatchObject({ code: "42501" });
  expect((await selectEntries(database.sql, {}, 10)).map(({ entry }) => entry.action)).toEqual([
    "payments.create",
  ]);
});
