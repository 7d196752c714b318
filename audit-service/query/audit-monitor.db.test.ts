import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { Secret } from "#kit/config/config.ts";
import { connectPostgres, openConnections, type Sql, transaction } from "#kit/database/postgres.ts";
import { openTestLog, readableLog, type TestLog } from "#tests/support/system/audit-sequencer.ts";
import { producedEntry, sampleOrigin, store } from "../entries/entry.fixture.ts";
import type { Entry } from "../entries/entry.ts";
import { createFollowing, type Following } from "./follow-entries.ts";
import { countNextEntries, type Span } from "./login-count-store.ts";
import { ANY } from "./search.fixture.ts";
import { countLogins, summarizeLogs } from "./summarize-log.ts";

let log: TestLog;
let sequencer: ReturnType<TestLog["sequencer"]>;
let nextSequence: number;
beforeEach(async () => {
  log = await openTestLog();
  sequencer = log.sequencer();
  nextSequence = 1_000_000;
});
afterEach(() => log.close());

async function add(...entries: Partial<Entry>[]): Promise<void> {
  const produced = entries.map((changes) => {
    nextSequence += 1;
    return producedEntry(nextSequence, changes);
  });
  await store(log.database.sql, produced);
  await sequencer.catchUp();
}

const follow = (following: Partial<Following> = {}) =>
  createFollowing([readableLog(log.database.sql)])({ ...ANY, ...following });

test("a follower gets each entry once in the order of its number, also one that was stored late", async () => {
  await add({ resource: "before" });
  let after = (await follow()).nextAfter;
  const seen: string[] = [];
  const poll = async () => {
    const { entries, nextAfter } = await follow({ afterSequence: after });
    seen.push(...entries.map(({ resource }) => resource));
    after = nextAfter;
  };
  await poll();
  await add({ resource: "a" }, { resource: "b" });
  await poll();
  // From a spool: it happened long before the others.
  await add({ resource: "late", occurredAt: new Date("2020-01-01T00:00:00Z") });
  await poll();
  await poll();
  expect(seen).toEqual(["a", "b", "late"]);
});

test("a follower leaves out the actions that it names, at most 100", async () => {
  const { nextAfter: afterSequence } = await follow();
  await add({ action: "auth.login" }, { action: "auth.refresh" }, { action: "authority.named" });
  const { entries } = await follow({ afterSequence, action: "auth.", withoutActions: ["auth.refresh"] });
  expect(entries.map(({ action }) => action)).toEqual(["auth.login"]);
  const withoutActions = Array.from({ length: 101 }, () => "a");
  await expect(follow({ withoutActions })).rejects.toMatchObject({ code: "validation_failed" });
});

test("an entry that is committed after later ones is not passed over", async () => {
  const { sql } = log.database;
  let commitFirst: () => void = () => undefined;
  const held = new Promise<void>((resolve) => {
    commitFirst = resolve;
  });
  let isStored: () => void = () => undefined;
  const stored = new Promise<void>((resolve) => {
    isStored = resolve;
  });
  const first = transaction(log.database.ownerSql, async (tx) => {
    await store(tx as unknown as typeof sql, [producedEntry(1, { resource: "first" })]);
    isStored();
    await held;
  });
  await stored;
  // Another producer: one alone stores one batch after the other.
  const origin = sampleOrigin(2, "0190b6a0-0000-4000-8000-0000000000bb");
  await store(sql, [{ ...producedEntry(2, { resource: "second" }), origin }]);
  await sequencer.step();
  let after = 0;
  const seen: string[] = [];
  const poll = async () => {
    const { entries, nextAfter } = await follow({ afterSequence: after });
    seen.push(...entries.map(({ resource }) => resource));
    after = nextAfter;
  };
  await poll();
  commitFirst();
  await first;
  await expect
    .poll(async () => {
      await sequencer.step();
      await poll();
      return seen.toSorted();
    })
    .toEqual(["first", "second"]);
});

test("a rare entry is found behind thousands of others, by reading 500 at a time", async () => {
  await log.record(1_100);
  await add({ action: "rare", resource: "x" }, { action: "rare", outcome: "success" });
  const seen: unknown[] = [];
  let [after, size, calls] = [0, 1, 0];
  while (after < size) {
    const page = await follow({ afterSequence: after, action: "rare", outcome: "failure" });
    seen.push(...page.entries.map(({ resource }) => resource));
    [after, size, calls] = [page.nextAfter, page.size, calls + 1];
  }
  expect([seen, calls]).toEqual([["x"], 3]);
  const full = await follow({ afterSequence: 0 });
  expect([full.entries.length, full.nextAfter]).toEqual([100, 100]);
  const most = new Map([
    [0, 100],
    [30, 30],
    [500, 500],
    [9_999, 500],
  ]);
  for (const [limit, count] of most) {
    const page = await follow({ afterSequence: 0, limit });
    expect([page.entries.length, page.nextAfter]).toEqual([count, count]);
  }
  await expect(follow({ afterSequence: size + 1 })).rejects.toMatchObject({ code: "validation_failed" });
});

const at = (time: string) => new Date(`2026-03-${time}Z`);
const login = (time: string, changes: Partial<Entry> = {}): Partial<Entry> => ({
  kind: "outcome",
  action: "auth.login",
  outcome: "success",
  occurredAt: at(time),
  ...changes,
});
const nobody = { userId: "", role: "", sessionId: "", claimedEmail: "" };
const MARCH: Span = { interval: "hour", from: at("01T00:00:00"), to: at("02T00:00:00") };

async function countAll(): Promise<void> {
  while (await countLogins(log.database.sql));
}

test("logins, failures and refusals are counted by the hour, each once, however often and by however many", async () => {
  await add(
    login("01T10:00:00"),
    login("01T10:59:59", { action: "auth.mfa.verify" }),
    login("01T10:30:00", { outcome: "failure", actor: nobody }),
    login("01T12:00:00", { action: "auth.passkey.login" }),
    // The password was right, and a code is missing: neither.
    login("01T10:10:00", { actor: nobody }),
    login("01T10:10:00", { kind: "intent", outcome: "" }),
    login("01T10:10:00", { action: "auth.refresh" }),
    { kind: "event", action: "user.login_failed", reason: "wrong_password", occurredAt: at("01T10:30:00") },
    { kind: "event", action: "user.login_failed", reason: "locked", occurredAt: at("01T11:30:00") },
    { kind: "event", action: "user.login_failed", reason: "locked", occurredAt: at("01T11:31:00") },
  );
  await Promise.all([countAll(), countAll(), countAll()]);
  await countAll();
  const summary = await summarizeLogs([{ sql: log.database.sql }], MARCH);
  expect(summary).toMatchObject({
    buckets: [
      { start: at("01T10:00:00"), logins: 2, failures: 1 },
      { start: at("01T12:00:00"), logins: 1, failures: 0 },
    ],
    refusals: [
      { reason: "locked", count: 2 },
      { reason: "wrong_password", count: 1 },
    ],
    countedUpTo: 10,
    size: 10,
  });
  await add(login("01T10:01:00"));
  await countAll();
  expect((await summarizeLogs([{ sql: log.database.sql }], MARCH)).buckets[0]?.logins).toBe(3);
  const byDay = await summarizeLogs([{ sql: log.database.sql }], { ...MARCH, interval: "day" });
  expect(byDay.buckets).toEqual([{ start: at("01T00:00:00"), logins: 4, failures: 1 }]);
});

test("counting goes on where it stopped, in parts, and another replica never counts at the same time", async () => {
  await add(...Array.from({ length: 25 }, () => login("01T10:00:00")));
  const { sql } = log.database;
  expect([await countNextEntries(sql, 10), await countNextEntries(sql, 10)]).toEqual([10, 10]);
  await transaction(log.database.ownerSql, async (tx) => {
    await tx`select from login_count_progress for update`;
    expect(await countNextEntries(sql, 10)).toBeUndefined();
  });
  await countAll();
  expect((await summarizeLogs([{ sql }], MARCH)).buckets[0]?.logins).toBe(25);
});

test("counting reads the entries that it counts, and a summary none, however long the log is", async () => {
  await log.record(3_000, login("01T10:00:00"));
  await sequencer.catchUp();
  await log.database.ownerSql.unsafe("analyze log_entries; analyze leaves");
  const readBy = (work: (sql: Sql) => Promise<unknown>) =>
    transaction(log.database.sql, async (tx) => {
      const readSoFar = async () => {
        const [row] = await tx<{ read: number }[]>`
          select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as read
          from pg_stat_xact_user_tables where relname like 'log_entries%' or relname like 'leaves%'`;
        return row?.read ?? Number.NaN;
      };
      const before = await readSoFar();
      await work(tx as unknown as Sql);
      return (await readSoFar()) - before;
    });
  await countNextEntries(log.database.sql, 1_000);
  expect(await readBy((sql) => countNextEntries(sql, 100))).toBeLessThan(300);
  expect(await readBy((sql) => summarizeLogs([{ sql }], MARCH))).toBeLessThan(10);
});

test("a summary holds one connection of a log", async () => {
  const { url, password } = log.database;
  const config = {
    DATABASE_URL: url,
    DATABASE_PASSWORD_FILE: new Secret(password),
    DATABASE_POOL_SIZE: 10,
  };
  const sql = connectPostgres(config, "summaries", pino({ level: "silent" }));
  try {
    await summarizeLogs([{ sql }], MARCH);
    expect(openConnections(sql)).toBe(1);
  } finally {
    await sql.end({ timeout: 1 });
  }
});

test("calls without an outcome count after a minute, with the oldest", async () => {
  const { sql, ownerSql } = log.database;
  await add({ kind: "intent", outcome: "", callId: "new" }, { kind: "intent", outcome: "", callId: "old" });
  expect((await summarizeLogs([{ sql }], MARCH)).openIntents).toEqual({ count: 0, oldest: undefined });
  await ownerSql`update open_intents set received_at = now() - interval '61 seconds' where call_id = 'old'`;
  expect((await summarizeLogs([{ sql }], MARCH)).openIntents).toMatchObject({
    count: 1,
    oldest: expect.any(Date),
  });
  await add({ kind: "outcome", callId: "old" });
  expect((await summarizeLogs([{ sql }], MARCH)).openIntents.count).toBe(0);
});

test.each<[string, Partial<Span>]>([
  ["is empty", { to: MARCH.from }],
  ["ends before it begins", { to: at("01T00:00:00"), from: at("02T00:00:00") }],
  ["has no beginning", { from: new Date(Number.NaN) }],
  ["is longer than 31 days by hour", { to: new Date("2026-04-02T00:00:01Z") }],
  ["is longer than a year by day", { interval: "day", to: new Date("2027-04-01T00:00:00Z") }],
])("a summary of a span that %s is refused", async (_what, span) => {
  await expect(summarizeLogs([{ sql: log.database.sql }], { ...MARCH, ...span })).rejects.toMatchObject({
    code: "validation_failed",
  });
});

test("a summary is of whole hours or days", async () => {
  const span = { from: at("01T10:20:00"), to: at("01T11:20:00") };
  const { sql } = log.database;
  expect(await summarizeLogs([{ sql }], { ...span, interval: "hour" })).toMatchObject({
    from: at("01T10:00:00"),
    to: at("01T12:00:00"),
  });
  expect(await summarizeLogs([{ sql }], { ...span, interval: "day" })).toMatchObject({
    from: at("01T00:00:00"),
    to: at("02T00:00:00"),
  });
});
