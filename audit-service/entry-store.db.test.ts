import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../tests/support/postgres.ts";
import { cleanEntry } from "./clean-entry.ts";
import { producedEntry, sampleEntry, sampleOrigin } from "./entry.fixture.ts";
import { insertEntries, selectEntries } from "./entry-store.ts";

let database: TestDatabase;

beforeAll(async () => {
  database = await createTestDatabase("audit-service");
});

afterAll(() => database.drop());

beforeEach(async () => {
  const { ownerSql } = database;
  await ownerSql`alter table entries disable trigger entries_append_only`;
  await ownerSql`truncate entries`;
  await ownerSql`alter table entries enable always trigger entries_append_only`;
});

test("an entry comes back as it was stored", async () => {
  const produced = producedEntry(1);
  expect(await insertEntries(database.sql, [produced])).toBe(1);
  expect(await selectEntries(database.sql, {}, 10)).toEqual([
    { position: expect.any(BigInt), entry: produced.entry },
  ]);
});

test("the largest values and the strangest letters come back as they were stored", async () => {
  const entry = sampleEntry({
    occurredAt: new Date("9999-12-31T23:59:59.999Z"),
    userAgent: `"'\\ \ufffd 👩‍💻 {}[],$1`,
    latencyUs: Number.MAX_SAFE_INTEGER,
    httpStatus: 999,
  });
  await insertEntries(database.sql, [{ entry, origin: sampleOrigin(Number.MAX_SAFE_INTEGER) }]);
  expect((await selectEntries(database.sql, {}, 1))[0]?.entry).toEqual(entry);
});

test("whatever an entry holds, once cleaned it can be stored", async () => {
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
  expect(await insertEntries(database.sql, entries)).toBe(texts.length);
});

test("entries get positions in the order they are given", async () => {
  const entries = Array.from({ length: 500 }, (_, index) =>
    producedEntry(index + 1, { resource: String(index) }),
  );
  await insertEntries(database.sql, entries);
  const stored = await selectEntries(database.sql, {}, 500);
  expect(stored.map(({ entry }) => Number(entry.resource)).reverse()).toEqual(
    Array.from({ length: 500 }, (_, index) => index),
  );
});

test("what its producer has stored before is left as it is, also within one insert", async () => {
  const first = producedEntry(1, { action: "auth.login" });
  await insertEntries(database.sql, [first]);
  const again = producedEntry(1, { action: "something else" });
  const second = producedEntry(2);
  expect(await insertEntries(database.sql, [again, second, second])).toBe(1);
  const stored = await selectEntries(database.sql, {}, 10);
  expect(stored.map(({ entry }) => entry)).toEqual([second.entry, first.entry]);
});

test("two replicas that store the same entries at once store them once", async () => {
  const entries = Array.from({ length: 200 }, (_, index) => producedEntry(index + 1));
  const counts = await Promise.all(Array.from({ length: 3 }, () => insertEntries(database.sql, entries)));
  expect(counts.reduce((sum, count) => sum + count, 0)).toBe(200);
  expect(await selectEntries(database.sql, {}, 1_000)).toHaveLength(200);
});

test.each([
  ["update", "update entries set action = 'harmless'"],
  ["delete", "delete from entries"],
  ["truncate", "truncate entries"],
  ["replace the table", "alter table entries rename to old_entries"],
  ["disable the trigger", "alter table entries disable trigger entries_append_only"],
  ["drop", "drop table entries"],
])("the service's role cannot %s", async (_name, statement) => {
  await insertEntries(database.sql, [producedEntry(1)]);
  await expect(database.sql.unsafe(statement)).rejects.toMatchObject({ code: "42501" });
});

test.each([
  ["update", "update entries set action = 'harmless'"],
  ["update nothing", "update entries set action = 'harmless' where false"],
  [
    "update on conflict",
    "insert into entries overriding system value select * from entries on conflict (id) do update set action = ''",
  ],
  ["delete", "delete from entries"],
  ["truncate", "truncate entries"],
])("even the owner cannot %s", async (_name, statement) => {
  await insertEntries(database.sql, [producedEntry(1)]);
  await expect(database.ownerSql.unsafe(statement)).rejects.toMatchObject({ code: "42501" });
  expect((await selectEntries(database.sql, {}, 10)).map(({ entry }) => entry.action)).toEqual([
    "payments.create",
  ]);
});
