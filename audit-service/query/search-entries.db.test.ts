import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { readableLog } from "#tests/support/system/audit-sequencer.ts";
import { producedEntry, store as storeAll } from "../entries/entry.fixture.ts";
import type { Entry } from "../entries/entry.ts";
import { ANY } from "./search.fixture.ts";
import { type EntrySearch, searchEntries } from "./search-entries.ts";

const ALICE = "0190b6a0-0000-7000-8000-00000000a11c";
const BOB = "0190b6a0-0000-7000-8000-0000000000b0";
const NOON_MS = Date.UTC(2026, 2, 1, 12);
const minute = (count: number) => new Date(NOON_MS + count * 60_000);
const actor = (userId: string) => ({ userId, role: "USER", sessionId: "", claimedEmail: "" });

/** Stored in this order, a minute apart. */
const STORED: Partial<Entry>[] = [
  { resource: "0", actor: actor(ALICE), action: "auth.login", outcome: "success" },
  { resource: "1", actor: actor(ALICE), action: "payments.create", outcome: "failure" },
  { resource: "2", actor: actor(BOB), action: "payments.create", outcome: "success", requestId: "request-2" },
  { resource: "3", actor: actor(BOB), action: "auth.login", outcome: "unknown" },
  { resource: "4", actor: actor(ALICE), action: "payments.create", outcome: "", kind: "intent" },
];

let database: TestDatabase;
let nextSequence = 1;

beforeAll(async () => {
  database = await createTestDatabase("audit-service");
  await store(STORED.map((changes, index) => ({ ...changes, occurredAt: minute(index) })));
});

afterAll(() => database.drop());

test.each<[string, Partial<EntrySearch>, string[]]>([
  ["nothing in particular: everything, newest first", {}, ["4", "3", "2", "1", "0"]],
  ["an actor", { actorUserId: ALICE }, ["4", "1", "0"]],
  ["an action", { action: "auth.login" }, ["3", "0"]],
  ["a resource", { resource: "2" }, ["2"]],
  ["a request", { requestId: "request-2" }, ["2"]],
  ["an outcome", { outcome: "failure" }, ["1"]],
  ["all but some actions", { withoutActions: ["auth.login", "not.there"] }, ["4", "2", "1"]],
  ["a beginning, inclusive", { from: minute(3) }, ["4", "3"]],
  ["an end, exclusive", { to: minute(2) }, ["1", "0"]],
  ["all together", { actorUserId: ALICE, action: "payments.create", from: minute(1), to: minute(4) }, ["1"]],
  ["an actor with NUL in the name, who is not there", { actorUserId: "\u0000" }, []],
  ["an end before the beginning", { from: minute(3), to: minute(1) }, []],
  ["the beginning of actions", { action: "auth." }, ["3", "0"]],
  ["the beginning of actions, with an outcome", { action: "payments.", outcome: "failure" }, ["1"]],
  ["part of an action", { action: "payments" }, []],
  ["a dot alone", { action: "." }, []],
  ["a beginning with a wildcard of SQL", { action: "a%." }, []],
])("a search for %s", async (_name, search, resources) => {
  expect((await resourcesOf(search)).resources).toEqual(resources);
});

test("a value cut at its recording is found by the whole value", async () => {
  const long = "r".repeat(5_000);
  await store([{ resource: `${"r".repeat(199)}…` }]);
  expect((await resourcesOf({ resource: long })).resources).toHaveLength(1);
});

test.each([
  ["paging.test", "paging.test"],
  ["group.test", "group."],
])("pages of %s as %s have no gaps or repetitions while entries are added", async (stored, action) => {
  await store(Array.from({ length: 25 }, (_, index) => ({ action: stored, resource: `before-${index}` })));
  const seen: string[] = [];
  let cursor = "";
  do {
    const page = await resourcesOf({ action, limit: 10, cursor });
    seen.push(...page.resources);
    cursor = page.nextCursor;
    await store([{ action: stored, resource: "added" }]);
  } while (cursor !== "");
  expect(seen).toEqual(Array.from({ length: 25 }, (_, index) => `before-${24 - index}`));
});

test("a full last page has no next one", async () => {
  await store(Array.from({ length: 4 }, () => ({ action: "full.page" })));
  const first = await resourcesOf({ action: "full.page", limit: 2 });
  const second = await resourcesOf({ action: "full.page", limit: 2, cursor: first.nextCursor });
  expect([first.nextCursor === "", second.nextCursor === ""]).toEqual([false, true]);
});

test("every invalid field is named", async () => {
  const withoutActions = Array.from({ length: 101 }, () => "a");
  const wrong = {
    limit: 101,
    from: new Date(Number.NaN),
    to: new Date(8.64e15),
    cursor: "me",
    withoutActions,
  };
  await expect(resourcesOf(wrong)).rejects.toMatchObject({
    code: "validation_failed",
    fields: [
      { field: "limit" },
      { field: "from" },
      { field: "to" },
      { field: "cursor" },
      { field: "withoutActions" },
    ],
  });
  await expect(resourcesOf({ limit: 0 })).rejects.toMatchObject({ code: "validation_failed" });
});

async function resourcesOf(search: Partial<EntrySearch>) {
  const page = await searchEntries(
    {
      logs: [readableLog(database.sql)],
      cursorKey: Buffer.alloc(32),
    },
    { ...ANY, ...search },
  );
  return { resources: page.entries.map(({ resource }) => resource), nextCursor: page.nextCursor };
}

async function store(entries: Partial<Entry>[]): Promise<void> {
  await storeAll(
    database.sql,
    entries.map((changes) => {
      nextSequence += 1;
      return producedEntry(nextSequence, changes);
    }),
  );
}
