import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { TestDatabase } from "#tests/support/database/postgres.ts";
import { isConsistent, isIncluded } from "#tests/support/people/verify-proof.ts";
import { withoutTriggers } from "#tests/support/system/audit-log.ts";
import {
  KEY,
  ORIGIN,
  openTestLog,
  readableLog,
  signer,
  type TestLog,
  type TestSequencer,
} from "#tests/support/system/audit-sequencer.ts";
import { producedEntry, store } from "../entries/entry.fixture.ts";
import { selectEntries } from "../entries/entry-store.ts";
import { exportEntries } from "../query/export-entries.ts";
import { proveConsistency, proveInclusion } from "../query/prove.ts";
import { type CheckpointSigner, createCheckpointSigner } from "./checkpoint.ts";
import { forgetOldKeys, runMaintenance } from "./maintain-log.ts";
import { cleanUpRemovals, removeOldPartitions } from "./remove-old-partitions.ts";
import {
  createPartitions,
  deleteClaims,
  hasStrayEntries,
  monthOf,
  selectPartitions,
  selectRemovals,
  selectUncleanRemovals,
  startOfMonth,
} from "./retention-store.ts";

let testLog: TestLog;
let database: TestDatabase;
let sequencer: TestSequencer;
const DAY_MS = 86_400_000;
const thisMonth = monthOf(new Date());

beforeEach(async () => {
  testLog = await openTestLog();
  database = testLog.database;
  sequencer = testLog.sequencer();
});

afterEach(() => testLog.close());

test("partitions of this month and the next three exist, and missing ones are created", async () => {
  const expected = [0, 1, 2, 3].map((ahead) => nameOf(thisMonth + ahead));
  expect(await selectPartitions(database.sql)).toEqual(expected);
  await database.ownerSql.unsafe(`drop table ${nameOf(thisMonth + 3)}`);
  await createPartitions(database.sql, 3);
  expect(await hasStrayEntries(database.sql)).toBe(false);
  expect(await selectPartitions(database.sql)).toEqual(expected);
});

test("a partition created by the service is append-only, and the default one stays empty", async () => {
  await database.ownerSql.unsafe(`drop table ${nameOf(thisMonth)}`);
  await createPartitions(database.sql, 3);
  await testLog.record(1);
  expect(await database.sql`select from log_entries_default`).toHaveLength(0);
  await expect(database.ownerSql.unsafe(`delete from ${nameOf(thisMonth)}`)).rejects.toMatchObject({
    code: "42501",
  });
});

test("an entry of a month without a partition is stored, and reported as stray", async () => {
  await database.ownerSql.unsafe(`drop table ${nameOf(thisMonth)}`);
  await testLog.record(1);
  await sequencer.catchUp();
  expect(sequencer.status.size).toBe(1);
  expect(await database.sql`select from log_entries_default`).toHaveLength(1);
  expect(await hasStrayEntries(database.sql)).toBe(true);
});

test("repetitions are stored once, also days later and with wrong clocks", async () => {
  const occurredDaysAgo = (days: number) => new Date(Date.now() - days * DAY_MS);
  const entries = [0, 3, 40, -2, -40].map((days, index) =>
    producedEntry(index + 1, { occurredAt: occurredDaysAgo(days) }),
  );
  expect(await store(database.sql, entries)).toBe(5);
  expect(await store(database.sql, entries)).toBe(0);
  const days = await database.sql`select tableoid::regclass::text as name from stored_keys order by position`;
  const today = `stored_keys_${new Date().toISOString().slice(0, 10).replaceAll("-", "_")}`;
  expect(days[0]?.name).toBe(today);
  expect(days.filter(({ name }) => name === "stored_keys_default")).toHaveLength(3);
});

test("daily tables of keys are dropped after 31 days, not before", async () => {
  await testLog.record(1);
  for (const days of [31, 32, 33]) await keyDay(days);
  await forgetOldKeys({ sql: database.sql, isStopped: () => false });
  const kept = await database.sql`select day from stored_keys order by day`;
  expect(kept).toHaveLength(2);
});

test("keys outside the daily tables are deleted by time of receipt, in batches", async () => {
  await database.ownerSql`
    insert into stored_keys_default (day, producer_name, producer_id, producer_sequence, id, received_at)
    select '1970-01-01', 'gateway', gen_random_uuid(), 1, gen_random_uuid(),
      now() - case when n % 12000 = 0 then interval '30 days' else interval '32 days' end
    from generate_series(1, 12000) as n`;
  await forgetOldKeys({ sql: database.sql, isStopped: () => false });
  expect(await database.sql`select from stored_keys_default`).toHaveLength(1);
});

test("a day without a table gets one with its keys, and repetitions are still stored once", async () => {
  const entry = producedEntry(1, { occurredAt: new Date(Date.now() + 5 * DAY_MS) });
  await store(database.sql, [entry]);
  await database.sql`select create_key_partitions(6)`;
  expect(await database.sql`select from stored_keys_default`).toHaveLength(0);
  expect(await store(database.sql, [entry])).toBe(0);
});

test("a replica whose clock is a year ahead removes no month before its time", async () => {
  await monthsOfEntries([
    [thisMonth - 2, 3],
    [thisMonth, 2],
  ]);
  expect(await retain(2, signer, new Date(Date.now() + 365 * DAY_MS))).toEqual([]);
  expect(await removedRanges()).toEqual([]);
  expect(await selectPartitions(database.sql)).toContain(nameOf(thisMonth - 2));
});

test("retention removes whole months with a signed note, and remaining entries stay provable", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 300],
    [thisMonth - 2, 20],
    [thisMonth, 70],
  ]);
  const early = sequencer.published[0]?.head;
  const last = sequencer.published.at(-1)?.head;
  if (early === undefined || last === undefined) throw new Error("no checkpoints");

  // The operator learns which table to archive.
  expect(await retain(2)).toMatchObject([{ level: pino.levels.values.warn, table: nameOf(thisMonth - 3) }]);

  expect(await selectPartitions(database.sql)).not.toContain(nameOf(thisMonth - 3));
  expect(await selectEntries(database.sql, {}, 500)).toHaveLength(90);
  const [removal] = await selectRemovals(database.sql);
  expect(removal).toMatchObject({
    firstSequence: 1,
    lastSequence: 300,
    partitionName: nameOf(thisMonth - 3),
  });
  expect(removal?.note.split("\n").slice(0, 3)).toEqual([`${ORIGIN}/removal`, "1", "300"]);
  for (const sequence of [301, 320, 321, 390]) {
    const { proof, leafHash } = await proveInclusion(database.sql, sequence, last.size);
    const claim = { index: sequence - 1, size: last.size, leafHash, proof, root: last.root };
    expect(isIncluded(claim)).toBe(true);
  }
  // An auditor can still use an earlier checkpoint.
  const proof = await proveConsistency(database.sql, early.size, last.size);
  const roots = { firstRoot: early.root, secondRoot: last.root };
  expect(isConsistent({ first: early.size, second: last.size, proof, ...roots })).toBe(true);

  const lines = await Array.fromAsync(exportEntries(readableLog(database.sql), { first: 0, last: 0 }));
  expect(lines.slice(0, 2)).toMatchObject([
    { kind: "log", log: { firstSequence: 301, lastSequence: 390 } },
    { kind: "removal", note: removal?.note },
  ]);
  await expect(
    exportEntries(readableLog(database.sql), { first: 300, last: 0 }).next(),
  ).rejects.toMatchObject({
    code: "not_found",
  });
  // Only the owner can archive the table; the service can neither read nor drop it.
  const [kept] = await database.ownerSql.unsafe(
    `select count(*)::int as count from ${nameOf(thisMonth - 3)}`,
  );
  expect(kept?.count).toBe(300);
  await expect(database.sql.unsafe(`select from ${nameOf(thisMonth - 3)}`)).rejects.toMatchObject({
    code: "42501",
  });
});

test("the log continues, and a second month is removed after the first", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth - 2, 5],
    [thisMonth, 5],
  ]);
  await retain(2);
  await testLog.record(5);
  await sequencer.catchUp();
  await retain(1);
  const removals = await selectRemovals(database.sql);
  expect(removals.map(({ firstSequence, lastSequence }) => [firstSequence, lastSequence])).toEqual([
    [1, 5],
    [6, 10],
  ]);
  expect(sequencer.status.size).toBe(20);
});

test("nothing is removed without a retention period", async () => {
  await monthsOfEntries([
    [thisMonth - 30, 5],
    [thisMonth, 5],
  ]);
  await retain(0);
  expect(await selectRemovals(database.sql)).toEqual([]);
});

test("a month with an entry that no checkpoint covers is kept", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth, 5],
  ]);
  await testLog.recordIn(thisMonth - 3, 1);
  await retain(1);
  expect(await selectRemovals(database.sql)).toEqual([]);
  await database.ownerSql`insert into removals values (1, 5, ${nameOf(thisMonth - 3)}, 'forged')`;
  await expect(database.sql`select detach_log_partition(${nameOf(thisMonth - 3)})`).rejects.toThrow(
    "without a number",
  );
  expect(await selectPartitions(database.sql)).toContain(nameOf(thisMonth - 3));
});

test("a month whose numbers overlap with the next one's is kept, and an error is logged", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth - 2, 5],
  ]);
  await testLog.recordIn(thisMonth - 3, 1);
  await sequencer.catchUp();
  expect(await retain(1)).toMatchObject([{ level: pino.levels.values.error, table: nameOf(thisMonth - 3) }]);
  expect(await selectRemovals(database.sql)).toEqual([]);
});

test("the service can only detach months of the log with a recorded removal", async () => {
  await monthsOfEntries([[thisMonth - 3, 5]]);
  await expect(database.sql`select detach_log_partition(${nameOf(thisMonth - 3)})`).rejects.toThrow(
    "no removal",
  );
  await database.sql`select detach_log_partition('leaves')`;
  await database.sql`select detach_log_partition('log_entries_default; drop table leaves')`;
  expect(await database.sql`select from leaves limit 1`).toHaveLength(1);
});

test("the last month of the log is kept while no later entry exists, because it may still get numbers", async () => {
  await monthsOfEntries([
    [thisMonth - 4, 5],
    [thisMonth - 3, 5],
  ]);
  // As when the last checkpoint is signed some time after the last entry was numbered.
  await withoutTriggers(database.ownerSql, (tx) => tx.unsafe("update checkpoints set floor_position = 1000"));
  await retain(1);
  expect((await selectRemovals(database.sql)).map(({ lastSequence }) => lastSequence)).toEqual([5]);
  expect(await selectPartitions(database.sql)).toContain(nameOf(thisMonth - 3));
});

test("a month with one entry is removed, an empty one kept, and a month includes its first instant", async () => {
  const start = (month: number) => startOfMonth(month).toISOString().slice(0, 10);
  await database.ownerSql`select create_log_partition(${start(thisMonth - 4)}::text::date)`;
  await monthsOfEntries([
    [thisMonth - 3, 1],
    [thisMonth - 2, 3],
  ]);
  await withoutTriggers(database.ownerSql, (tx) =>
    tx.unsafe(`
      update leaves set received_at = '${start(thisMonth - 2)}T00:00:00Z' where sequence = 2;
      update log_entries as e set received_at = '${start(thisMonth - 2)}T00:00:00Z'
        from leaves as l where l.position = e.position and l.sequence = 2`),
  );
  await retain(2);
  expect(await removedRanges()).toEqual([[1, 1]]);
  const names = await selectPartitions(database.sql);
  expect([names.includes(nameOf(thisMonth - 4)), names.includes(nameOf(thisMonth - 3))]).toEqual([
    true,
    false,
  ]);
});

test("a signed removal whose partition was not detached is completed the next time", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth, 5],
  ]);
  await database.ownerSql`insert into removals values (1, 5, ${nameOf(thisMonth - 3)}, 'signed before a crash')`;
  await retain(2);
  expect(await selectPartitions(database.sql)).not.toContain(nameOf(thisMonth - 3));
  expect((await selectRemovals(database.sql)).map(({ note }) => note)).toEqual(["signed before a crash"]);
});

test("a log without a checkpoint of its origin keeps every month", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth, 5],
  ]);
  const renamed = createCheckpointSigner("gatehouse.test/another", KEY);
  await retain(2, renamed);
  expect(await removedRanges()).toEqual([]);
});

test("a month with a number of the next one between its own is kept", async () => {
  for (const [month, count] of [
    [thisMonth - 3, 5],
    [thisMonth - 2, 1],
    [thisMonth - 3, 6],
    [thisMonth, 8],
  ] as const) {
    await testLog.recordIn(month, count);
    await sequencer.catchUp();
  }
  await retain(2);
  expect(await removedRanges()).toEqual([]);
});

test("forgotten intents are deleted in batches, and an unfinished clean-up is not recorded as finished", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth, 5],
  ]);
  await database.ownerSql`
    insert into open_intents (call_id, producer_id, position, received_at)
    select n::text, gen_random_uuid(), n, ${startOfMonth(thisMonth - 3)} from generate_series(1, 5001) as n`;
  await retain(2);
  let looks = 0;
  // The process ends after the first batch of intents.
  await cleanUpRemovals({ sql: database.sql, isStopped: () => ++looks > 1 });
  expect(await database.sql`select from open_intents`).toHaveLength(1);
  expect(await database.sql`select from removal_cleanups`).toHaveLength(0);
  await cleanUpRemovals({ sql: database.sql, isStopped: () => false });
  expect(await database.sql`select from open_intents`).toHaveLength(0);
  expect(await selectUncleanRemovals(database.sql)).toEqual([]);
});

test("claimed addresses are erased up to a time, and the scan ends at the first batch without any", async () => {
  const time = new Date("2026-03-01T00:00:00Z");
  await database.ownerSql`
    insert into claimed_emails (position, received_at, salt, address)
    select n, ${time}::timestamptz - make_interval(hours => 3 - n), sha256('s'), 'ada@example.com'
    from generate_series(1, 6) as n`;
  const positions = async () => {
    const rows = await database.sql<
      { position: string }[]
    >`select position from claimed_emails order by position`;
    return rows.map(({ position }) => Number(position));
  };
  expect(await deleteClaims(database.sql, { before: time, after: 0n, limit: 2 })).toBe(2n);
  expect(await positions()).toEqual([3, 4, 5, 6]);
  // The third was received at exactly this time.
  expect(await deleteClaims(database.sql, { before: time, after: 2n, limit: 2 })).toBeUndefined();
  expect(await deleteClaims(database.sql, { before: time, after: 6n, limit: 2 })).toBeUndefined();
  expect(await positions()).toEqual([3, 4, 5, 6]);
});

test("maintenance on a replica that is not the sequencer removes nothing, and reports stray entries", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth, 5],
  ]);
  await database.ownerSql.unsafe(`drop table ${nameOf(thisMonth + 3)}`);
  const strays: boolean[] = [];
  const stop = runMaintenance({
    sql: database.sql,
    signer,
    sequencer: { status: { ...sequencer.status, isSequencer: false } },
    retentionMonths: 2,
    setStray: (hasStray) => strays.push(hasStray),
    onFailure: () => expect.unreachable(),
    now: () => new Date(),
    logger: pino({ level: "silent" }),
  });
  await expect.poll(() => strays).toEqual([false]);
  await stop();
  expect(await selectPartitions(database.sql)).toContain(nameOf(thisMonth + 3));
  expect(await removedRanges()).toEqual([]);
});

test("the range of numbers of each month is recorded", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth - 2, 3],
    [thisMonth - 2, 4],
  ]);
  const months = await database.sql`
    select first_sequence::int as first, last_sequence::int as last from log_months order by month`;
  expect([...months]).toEqual([
    { first: 1, last: 5 },
    { first: 6, last: 12 },
  ]);
});

test("data beside a removed month is erased completely in batches, also after a crash", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth, 5],
  ]);
  const old = startOfMonth(thisMonth - 3);
  await database.ownerSql`
    insert into claimed_emails (position, received_at, salt, address)
    select 1000000 + n, case when n > 12000 then now() else ${old} end, sha256('s'), 'ada@example.com'
    from generate_series(1, 12010) as n`;
  await database.ownerSql`
    insert into open_intents (call_id, producer_id, position, received_at)
    select n::text, gen_random_uuid(), n, ${old} from generate_series(1, 5001) as n`;
  const left = async () => [
    (await database.sql`select from claimed_emails where received_at < ${startOfMonth(thisMonth)}`).length,
    (await database.sql`select from open_intents where received_at < ${startOfMonth(thisMonth)}`).length,
    (await database.sql`select from removal_cleanups`).length,
  ];

  await retain(2);
  expect(await selectPartitions(database.sql)).not.toContain(nameOf(thisMonth - 3));
  let rounds = 0;
  await cleanUpRemovals({ sql: database.sql, isStopped: () => rounds++ > 0 }); // the process ends after one batch
  expect((await left())[0]).toBeGreaterThan(5_000);
  expect((await left())[2]).toBe(0);

  await cleanUpRemovals({ sql: database.sql, isStopped: () => false });
  expect(await left()).toEqual([0, 0, 1]);
  expect(await database.sql`select from claimed_emails`).toHaveLength(10);
});

test("a failed maintenance task does not stop the others", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth, 5],
  ]);
  await database.ownerSql`drop function create_key_partitions(integer)`;
  let failures = 0;
  const stop = runMaintenance({
    sql: database.sql,
    signer,
    sequencer: { status: { ...sequencer.status, isSequencer: true } },
    retentionMonths: 2,
    setStray: () => undefined,
    onFailure: () => {
      failures += 1;
    },
    now: () => new Date(),
    logger: pino({ level: "silent" }),
  });
  await expect.poll(async () => (await database.sql`select from removal_cleanups`).length).toBe(1);
  await stop();
  expect(failures).toBe(1);
});

/** A day's table with one key, of so many days ago. */
async function keyDay(daysAgo: number): Promise<void> {
  const day = new Date(Date.now() - daysAgo * DAY_MS).toISOString().slice(0, 10);
  const next = new Date(Date.now() - (daysAgo - 1) * DAY_MS).toISOString().slice(0, 10);
  await database.ownerSql.unsafe(`
    create table stored_keys_${day.replaceAll("-", "_")} partition of stored_keys for values from ('${day}') to ('${next}')`);
  await database.ownerSql`
    insert into stored_keys (day, producer_name, producer_id, producer_sequence, id)
    values (${day}, 'gateway', gen_random_uuid(), 1, gen_random_uuid())`;
}

/** @returns what was logged. */
async function retain(
  retentionMonths: number,
  by: CheckpointSigner = signer,
  now = new Date(),
): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  const logger = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  await removeOldPartitions({
    sql: database.sql,
    signer: by,
    retentionMonths,
    now: () => now,
    logger,
  });
  return lines;
}

async function removedRanges(): Promise<[number, number][]> {
  const removals = await selectRemovals(database.sql);
  return removals.map(({ firstSequence, lastSequence }) => [firstSequence, lastSequence]);
}

async function monthsOfEntries(months: readonly (readonly [number, number])[]): Promise<void> {
  for (const [month, count] of months) {
    await testLog.recordIn(month, count);
    await sequencer.catchUp();
  }
}

function nameOf(month: number): string {
  return `log_entries_${startOfMonth(month).toISOString().slice(0, 7).replace("-", "_")}`;
}
