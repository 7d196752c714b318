import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { transaction } from "../service-kit/postgres.ts";
import { withoutTriggers } from "../tests/support/audit-log.ts";
import { ORIGIN, signer, type TestSequencer, testSequencer } from "../tests/support/audit-sequencer.ts";
import { createTestDatabase, type TestDatabase } from "../tests/support/postgres.ts";
import { producedEntry, store } from "./entry.fixture.ts";
import type { EntryOrigin } from "./entry.ts";
import { isIdTaken, selectEntries } from "./entry-store.ts";
import { exportEntries } from "./export-entries.ts";
import { forgetOldKeys } from "./forget-old-keys.ts";
import { runMaintenance } from "./maintain-log.ts";
import { monthOf, startOfMonth } from "./month.ts";
import { proveConsistency, proveInclusion } from "./prove.ts";
import { cleanUpRemovals, removeOldPartitions } from "./remove-old-partitions.ts";
import { createPartitions, hasStrayEntries, selectPartitions, selectRemovals } from "./retention-store.ts";
import { isConsistent, isIncluded } from "./verify-proof.fixture.ts";

let database: TestDatabase;
let sequencer: TestSequencer;
let nextSequence: number;
const DAY_MS = 86_400_000;
const thisMonth = monthOf(new Date());

beforeEach(async () => {
  database = await createTestDatabase("audit-service");
  sequencer = testSequencer(database);
  nextSequence = 1;
});

afterEach(async () => {
  await sequencer.close();
  await database.drop();
});

test("partitions of this month and the next three are there, and made again where they are missing", async () => {
  const expected = [0, 1, 2, 3].map((ahead) => nameOf(thisMonth + ahead));
  expect(await selectPartitions(database.sql)).toEqual(expected);
  await database.ownerSql.unsafe(`drop table ${nameOf(thisMonth + 3)}`);
  await createPartitions(database.sql, 3);
  expect(await hasStrayEntries(database.sql)).toBe(false);
  expect(await selectPartitions(database.sql)).toEqual(expected);
});

test("a partition made by the service is as append-only as the others, and the default one stays empty", async () => {
  await database.ownerSql.unsafe(`drop table ${nameOf(thisMonth)}`);
  await createPartitions(database.sql, 3);
  await record(1);
  expect(await database.sql`select from log_entries_default`).toHaveLength(0);
  await expect(database.ownerSql.unsafe(`delete from ${nameOf(thisMonth)}`)).rejects.toMatchObject({
    code: "42501",
  });
});

test("an entry of a month without a partition is stored all the same, and said to be astray", async () => {
  await database.ownerSql.unsafe(`drop table ${nameOf(thisMonth)}`);
  await record(1);
  await sequencer.catchUp();
  expect(sequencer.status.size).toBe(1);
  expect(await database.sql`select from log_entries_default`).toHaveLength(1);
});

test("an entry is stored once whenever it is sent again, also days after it occurred and by clocks that are wrong", async () => {
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

test("keys of days more than 31 days ago are forgotten with their tables, younger ones are not", async () => {
  await record(1);
  for (const days of [31, 32, 33]) await keyDay(days);
  await forgetOldKeys({ sql: database.sql, now: new Date(), isStopped: () => false });
  const kept = await database.sql`select day from stored_keys order by day`;
  expect(kept).toHaveLength(2);
});

test("keys in no day's table are forgotten by the time of receipt, in batches until none is left", async () => {
  await database.ownerSql`
    insert into stored_keys_default (day, producer_name, producer_id, producer_sequence, id, received_at)
    select '1970-01-01', 'gateway', gen_random_uuid(), 1, gen_random_uuid(),
      now() - case when n % 12000 = 0 then interval '30 days' else interval '32 days' end
    from generate_series(1, 12000) as n`;
  await database.ownerSql`
    insert into entry_keys (producer_id, producer_sequence, id, received_at)
    select gen_random_uuid(), 1, gen_random_uuid(), now() - interval '32 days' from generate_series(1, 6000)`;
  await forgetOldKeys({ sql: database.sql, now: new Date(), isStopped: () => false });
  expect(await database.sql`select from stored_keys_default`).toHaveLength(1);
  expect(await database.sql`select from entry_keys`).toHaveLength(0);
});

test("a day that had no table gets one with what was stored for it meanwhile, and goes on storing it once", async () => {
  const entry = producedEntry(1, { occurredAt: new Date(Date.now() + 5 * DAY_MS) });
  await store(database.sql, [entry]);
  await database.sql`select create_key_partitions(6)`;
  expect(await database.sql`select from stored_keys_default`).toHaveLength(0);
  expect(await store(database.sql, [entry])).toBe(0);
});

test("what a replica of the version before has stored, or stores meanwhile, is stored once", async () => {
  const [first, second, third] = [producedEntry(1), producedEntry(2), producedEntry(3)];
  await oldKey(first.origin, first.entry.id);
  expect(await store(database.sql, [first, second])).toBe(1);
  expect(await oldKey(second.origin, second.entry.id)).toBe(0);
  // Another entry under an id that the other table has.
  await expect(
    store(database.sql, [{ ...third, entry: { ...third.entry, id: first.entry.id } }]),
  ).rejects.toSatisfy(isIdTaken);
  await expect(oldKey(third.origin, second.entry.id)).rejects.toSatisfy(isIdTaken);
});

test("retention takes whole months away, signs what went, and what is left stays proven", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 300],
    [thisMonth - 2, 20],
    [thisMonth, 70],
  ]);
  const early = sequencer.published[0]?.head;
  const last = sequencer.published.at(-1)?.head;
  if (early === undefined || last === undefined) throw new Error("no checkpoints");

  await retain(2);

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
  // A checkpoint from before, held by an auditor, is still worth something.
  const proof = await proveConsistency(database.sql, early.size, last.size);
  const roots = { firstRoot: early.root, secondRoot: last.root };
  expect(isConsistent({ first: early.size, second: last.size, proof, ...roots })).toBe(true);

  const lines = await Array.fromAsync(exportEntries(database.sql, ORIGIN, { first: 0, last: 0 }));
  expect(lines.slice(0, 2)).toMatchObject([
    { kind: "log", log: { firstSequence: 301, lastSequence: 390 } },
    { kind: "removal", note: removal?.note },
  ]);
  await expect(exportEntries(database.sql, ORIGIN, { first: 300, last: 0 }).next()).rejects.toMatchObject({
    code: "not_found",
  });
  // The table is the owner's to archive; the service can neither read nor drop it.
  const [kept] = await database.ownerSql.unsafe(
    `select count(*)::int as count from ${nameOf(thisMonth - 3)}`,
  );
  expect(kept?.count).toBe(300);
  await expect(database.sql.unsafe(`select from ${nameOf(thisMonth - 3)}`)).rejects.toMatchObject({
    code: "42501",
  });
});

test("the log goes on, and a second month goes later, after the first", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth - 2, 5],
    [thisMonth, 5],
  ]);
  await retain(2);
  await record(5);
  await sequencer.catchUp();
  await retain(1);
  const removals = await selectRemovals(database.sql);
  expect(removals.map(({ firstSequence, lastSequence }) => [firstSequence, lastSequence])).toEqual([
    [1, 5],
    [6, 10],
  ]);
  expect(sequencer.status.size).toBe(20);
});

test("without a retention nothing is ever removed", async () => {
  await monthsOfEntries([
    [thisMonth - 30, 5],
    [thisMonth, 5],
  ]);
  await retain(0);
  expect(await selectRemovals(database.sql)).toEqual([]);
});

test("a month with an entry that no checkpoint covers stays", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth, 5],
  ]);
  await storeIn(thisMonth - 3, 1);
  await retain(1);
  expect(await selectRemovals(database.sql)).toEqual([]);
  await database.ownerSql`insert into removals values (1, 5, ${nameOf(thisMonth - 3)}, 'forged')`;
  await expect(database.sql`select detach_log_partition(${nameOf(thisMonth - 3)})`).rejects.toThrow(
    "without a number",
  );
  expect(await selectPartitions(database.sql)).toContain(nameOf(thisMonth - 3));
});

test("a month whose numbers are mixed with the next one's stays", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth - 2, 5],
  ]);
  await storeIn(thisMonth - 3, 1);
  await sequencer.catchUp();
  await retain(1);
  expect(await selectRemovals(database.sql)).toEqual([]);
});

test("the service cannot detach what no removal speaks of, or anything but a month of the log", async () => {
  await monthsOfEntries([[thisMonth - 3, 5]]);
  await expect(database.sql`select detach_log_partition(${nameOf(thisMonth - 3)})`).rejects.toThrow(
    "no removal",
  );
  await database.sql`select detach_log_partition('leaves')`;
  await database.sql`select detach_log_partition('log_entries_default; drop table leaves')`;
  expect(await database.sql`select from leaves limit 1`).toHaveLength(1);
});

test("entries of a month wait for a transaction from before it: what that stores belongs to the month before", async () => {
  await storeIn(thisMonth, 1);
  await sequencer.catchUp();
  const stored = Promise.withResolvers<void>();
  const isOpen = Promise.withResolvers<void>();
  const open = transaction(database.sql, async (tx) => {
    await tx`select now()`;
    isOpen.resolve();
    await stored.promise;
  });
  await isOpen.promise;
  await storeIn(thisMonth + 1, 2);
  await sequencer.catchUp();
  const size = async () => (await database.sql`select from leaves`).length;
  expect(await size()).toBe(1);
  stored.resolve();
  await open;
  await sequencer.catchUp();
  expect(await size()).toBe(3);
});

test("entries of a month that are seen before those of the month before are numbered after them", async () => {
  await storeIn(thisMonth - 2, 1);
  await sequencer.catchUp();
  await storeIn(thisMonth - 1, 3);
  await storeIn(thisMonth - 2, 3);
  await sequencer.catchUp();
  const months = await database.sql<
    { received_at: Date }[]
  >`select received_at from leaves order by sequence`;
  expect(months.map(({ received_at }) => monthOf(received_at) - thisMonth)).toEqual([
    -2, -2, -2, -2, -1, -1, -1,
  ]);
});

test("the last month of the log stays while nothing lies behind it: a number of its own may still come", async () => {
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

test("the months of numbers are kept as they are given out, whoever gives them", async () => {
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

test("what lies beside a month that was taken away is erased in batches until nothing is left, also after a crash between", async () => {
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

test("a task of the upkeep that fails stops no other one", async () => {
  await monthsOfEntries([
    [thisMonth - 3, 5],
    [thisMonth, 5],
  ]);
  await database.ownerSql`drop function create_key_partitions(integer)`;
  let failures = 0;
  const stop = runMaintenance({
    sql: database.sql,
    signer,
    sequencer: { ...sequencer, status: { ...sequencer.status, isSequencer: true } },
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

/** As the version before stores a key. @returns how many were new. */
async function oldKey({ producerId, sequence }: EntryOrigin, id: string): Promise<number> {
  const rows = await database.sql`
    insert into entry_keys (producer_id, producer_sequence, id) values (${producerId}, ${sequence}, ${id})
    on conflict (producer_id, producer_sequence) do nothing returning position`;
  return rows.length;
}

async function retain(retentionMonths: number): Promise<void> {
  const logger = pino({ level: "silent" });
  await removeOldPartitions({ sql: database.sql, signer, retentionMonths, now: () => new Date(), logger });
}

async function record(count: number): Promise<void> {
  await store(
    database.sql,
    Array.from({ length: count }, () => producedEntry(nextSequence++)),
  );
}

async function monthsOfEntries(months: readonly (readonly [number, number])[]): Promise<void> {
  for (const [month, count] of months) {
    await storeIn(month, count);
    await sequencer.catchUp();
  }
}

/** Entries received on the tenth of a month that has passed. */
async function storeIn(month: number, count: number): Promise<void> {
  const start = startOfMonth(month).toISOString().slice(0, 10);
  await database.ownerSql`select create_log_partition(${start}::text::date)`;
  await record(count);
  await withoutTriggers(database.ownerSql, (tx) =>
    tx.unsafe(`
      update log_entries as e set received_at = '${start}T00:00:00Z'::timestamptz + interval '9 days'
      where not exists (select from leaves as l where l.position = e.position)
        and received_at >= now() - interval '1 hour'`),
  );
}

function nameOf(month: number): string {
  return `log_entries_${startOfMonth(month).toISOString().slice(0, 7).replace("-", "_")}`;
}
