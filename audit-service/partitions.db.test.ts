import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { transaction } from "../service-kit/postgres.ts";
import { withoutTriggers } from "../tests/support/audit-log.ts";
import { ORIGIN, signer, type TestSequencer, testSequencer } from "../tests/support/audit-sequencer.ts";
import { createTestDatabase, type TestDatabase } from "../tests/support/postgres.ts";
import { producedEntry, store } from "./entry.fixture.ts";
import { selectEntries } from "./entry-store.ts";
import { exportEntries } from "./export-entries.ts";
import { keepTidy } from "./keep-tidy.ts";
import { monthOf, startOfMonth } from "./month.ts";
import { proveConsistency, proveInclusion } from "./prove.ts";
import { removeOldPartitions } from "./remove-old-partitions.ts";
import { selectPartitions, selectRemovals } from "./retention-store.ts";
import { isConsistent, isIncluded } from "./verify-proof.fixture.ts";

let database: TestDatabase;
let sequencer: TestSequencer;
let nextSequence: number;
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
  expect(await keepTidy(database.sql, new Date())).toEqual({ hasStrayEntries: false });
  expect(await selectPartitions(database.sql)).toEqual(expected);
});

test("a partition made by the service is as append-only as the others, and the default one stays empty", async () => {
  await database.ownerSql.unsafe(`drop table ${nameOf(thisMonth)}`);
  await keepTidy(database.sql, new Date());
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

test("keys older than 31 days are forgotten, younger ones are not", async () => {
  await record(3);
  await database.ownerSql`update entry_keys set received_at = received_at - interval '32 days' where producer_sequence = 1`;
  await keepTidy(database.sql, new Date());
  const rows = await database.sql`select producer_sequence::int as sequence from entry_keys order by 1`;
  expect(rows.map(({ sequence }) => sequence)).toEqual([2, 3]);
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
