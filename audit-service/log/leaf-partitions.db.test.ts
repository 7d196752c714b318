import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Sql, transaction } from "#kit/database/postgres.ts";
import type { TestDatabase } from "#tests/support/database/postgres.ts";
import { isConsistent, isIncluded } from "#tests/support/people/verify-proof.ts";
import {
  openTestLog,
  recomputedLog,
  type TestLog,
  type TestSequencer,
} from "#tests/support/system/audit-sequencer.ts";
import { store } from "../entries/entry.fixture.ts";
import { selectEntries, selectEntriesById, selectProvenEntries } from "../entries/entry-store.ts";
import { proveConsistency, proveInclusion } from "../query/prove.ts";
import { createLeafPartitions, monthOf } from "./retention-store.ts";
import { selectUnnumbered } from "./sequencer-store.ts";
import { hashRanges } from "./tree-proofs.ts";
import { selectLeaf } from "./tree-store.ts";

const WIDTH = 2 ** 28;
const thisMonth = monthOf(new Date());
let testLog: TestLog;
let database: TestDatabase;
let sequencer: TestSequencer;

beforeEach(async () => {
  testLog = await openTestLog();
  database = testLog.database;
  sequencer = testLog.sequencer();
});

afterEach(() => testLog.close());

test("the log continues across partitions, and all entries remain provable", async () => {
  await smallPartitions();
  await testLog.record(250);
  await sequencer.catchUp();
  const early = sequencer.published.at(-1)?.head;
  await testLog.record(450); // one batch over two ends
  await sequencer.catchUp();
  const last = sequencer.published.at(-1)?.head;
  if (early === undefined || last === undefined) throw new Error("no checkpoints");
  expect(last.size).toBe(700);

  const log = await recomputedLog(database.ownerSql);
  expect(log.map(({ sequence }) => sequence)).toEqual(Array.from({ length: 700 }, (_, index) => index + 1));
  expect(log.every(({ isIntact }) => isIntact)).toBe(true);
  for (const sequence of [1, 299, 300, 301, 599, 600, 700]) {
    const { proof, leafHash } = await proveInclusion(database.sql, sequence, last.size);
    expect(isIncluded({ index: sequence - 1, size: last.size, leafHash, proof, root: last.root })).toBe(true);
  }
  const consistency = await proveConsistency(database.sql, early.size, last.size);
  expect(
    isConsistent({
      first: early.size,
      second: last.size,
      proof: consistency,
      firstRoot: early.root,
      secondRoot: last.root,
    }),
  ).toBe(true);
  const page = await selectEntries(database.sql, {}, 700);
  expect(page.map(({ entry }) => entry.sequence).sort((a, b) => a - b)).toEqual(
    log.map(({ sequence }) => sequence),
  );
  const months =
    await database.sql`select first_sequence::int as first, last_sequence::int as last from log_months`;
  expect(months).toEqual([{ first: 1, last: 700 }]);
  // The term of another replica begins in a later partition than the floor of the last checkpoint.
  const other = testLog.sequencer();
  await sequencer.stop();
  await testLog.record(3);
  await other.catchUp();
  expect(other.status.size).toBe(703);
});

test("no entry gets a second number, in its own or another partition", async () => {
  await smallPartitions();
  await testLog.record(5);
  await sequencer.catchUp();
  for (const sequence of [6, 450, 700]) {
    await expect(
      database.sql`
        insert into leaves (sequence, position, received_at, leaf_hash, chain_hash)
        select ${sequence}, position, received_at, leaf_hash, chain_hash from leaves where sequence = 3`,
      `as ${sequence}`,
    ).rejects.toMatchObject({ code: "23505" });
  }
  // Two inserts in one statement, across a partition boundary.
  await expect(
    database.sql`
      insert into leaves (sequence, position, received_at, leaf_hash, chain_hash)
      select s.sequence, 1000000, received_at, leaf_hash, chain_hash
      from leaves as l cross join generate_series(299, 300) as s (sequence) where l.sequence = 3`,
  ).rejects.toMatchObject({ code: "23505" });
  expect(await database.sql`select from leaves`).toHaveLength(5);
});

test("no partition can be changed, and the service has no rights on any of them", async () => {
  await testLog.record(3);
  await sequencer.catchUp();
  await createLeafPartitions(database.sql);
  const partitions = await partitionNames();
  expect(partitions.length).toBeGreaterThan(1);
  for (const name of ["leaves", ...partitions]) {
    for (const statement of [`delete from ${name}`, `update ${name} set position = 0`, `truncate ${name}`]) {
      await expect(database.ownerSql.unsafe(statement), statement).rejects.toMatchObject({ code: "42501" });
    }
  }
  for (const name of partitions) {
    for (const statement of [`select from ${name}`, `insert into ${name} select * from leaves`]) {
      await expect(database.sql.unsafe(statement), statement).rejects.toMatchObject({ code: "42501" });
    }
  }
});

test("partitions are created once for the next 2 × 2^28 numbers, also by concurrent callers", async () => {
  expect(await partitionNames()).toEqual([`leaves_below_${WIDTH}`, `leaves_below_${2 * WIDTH}`]);
  await Promise.all([1, 2, 3].map(() => createLeafPartitions(database.sql)));
  expect(await partitionNames()).toHaveLength(2);
  await database.ownerSql`
    insert into leaves (sequence, position, received_at, leaf_hash, chain_hash)
    values (${WIDTH}, 1, now(), sha256('leaf'), sha256('chain'))`;
  await Promise.all([1, 2, 3].map(() => createLeafPartitions(database.sql)));
  expect(await partitionNames()).toEqual([1, 2, 3].map((count) => `leaves_below_${count * WIDTH}`));
});

test("queries by number or month read only their partition", async () => {
  await smallPartitions();
  for (const [month, count] of [
    [thisMonth - 2, 299],
    [thisMonth - 1, 300],
    [thisMonth, 10],
  ] as const) {
    await testLog.recordIn(month, count);
    await sequencer.catchUp();
  }
  await database.ownerSql.unsafe("analyze leaves");
  const reads = (work: (sql: Sql) => Promise<unknown>) =>
    transaction(database.sql, (tx) => lookedAt(tx as unknown as Sql, () => work(tx as unknown as Sql)));
  const [first, second, third] = ["leaves_below_300", "leaves_below_600", `leaves_below_${WIDTH}`];
  expect(await reads((sql) => selectLeaf(sql, 450))).toEqual([second]);
  expect(await reads((sql) => hashRanges(sql, [{ begin: 4, end: 150 }]))).toEqual([first]);
  expect(await reads((sql) => selectProvenEntries(sql, { first: 300, last: 599 }))).toEqual([second]);
  expect(await reads((sql) => selectEntries(sql, {}, 5))).toEqual([third]);
  const [oldest] = await selectProvenEntries(database.sql, { first: 1, last: 1 });
  expect(await reads((sql) => selectEntriesById(sql, [oldest?.entry.id ?? ""]))).toEqual([first]);
  await testLog.record(1);
  // Reads all partitions, because nothing is known of the numbers above the floor.
  expect(await reads((sql) => selectUnnumbered(sql, { position: 0n, sequence: 0 }, 10, undefined))).toEqual([
    first,
    second,
    third,
  ]);
  const [{ position } = { position: "0" }] = await database.sql<{ position: string }[]>`
    select position from leaves where sequence = 609`;
  expect(
    await reads((sql) =>
      selectUnnumbered(sql, { position: BigInt(position) - 1n, sequence: 608 }, 10, undefined),
    ),
  ).toEqual([third]);
});

test("in a backlog, numbered entries above the floor are not numbered again", async () => {
  await testLog.record(1);
  await sequencer.catchUp();
  const first = await openTransaction(1);
  await sequencer.step(); // the floor waits for this transaction, and for none that begins later
  const second = await openTransaction(2_500);
  await testLog.record(5);
  await sequencer.step();
  expect(sequencer.status.size).toBe(6);
  await second.commit();
  await first.commit();
  await sequencer.catchUp();
  expect(sequencer.status.size).toBe(2_507);
  const log = await recomputedLog(database.ownerSql);
  expect(log.every(({ isIntact }) => isIntact)).toBe(true);
});

/** Replaces the empty partitions by small ones, of a few hundred numbers. */
async function smallPartitions(): Promise<void> {
  await database.ownerSql.unsafe(`
    drop table ${(await partitionNames()).join(", ")};
    select make_leaf_partition(1, 300), make_leaf_partition(300, 600), make_leaf_partition(600, ${WIDTH})`);
}

async function partitionNames(): Promise<string[]> {
  const rows = await database.ownerSql<{ name: string }[]>`
    select inhrelid::regclass::text as name from pg_inherits where inhparent = 'leaves'::regclass order by name`;
  return rows.map(({ name }) => name);
}

/** The partitions that were scanned in a transaction. */
async function lookedAt(tx: Sql, work: () => Promise<unknown>): Promise<string[]> {
  const scans = async () => {
    const rows = await tx<{ relid: number; scans: number }[]>`
      select relid::int, (seq_scan + coalesce(idx_scan, 0))::int as scans from pg_stat_xact_user_tables
      where relname like 'leaves%'`;
    return new Map(rows.map((row) => [row.relid, row.scans]));
  };
  const before = await scans(); // those of transactions that were not reported yet are among them
  await work();
  const read = [...(await scans())].filter(([relid, count]) => count > (before.get(relid) ?? 0));
  const names = await tx<{ name: string }[]>`
    select relname as name from pg_class where oid = any(${read.map(([relid]) => relid)}::int[]::oid[]) order by oid`;
  return names.map(({ name }) => name);
}

/** Stores entries in an open transaction. Has its own producer: batches of one producer are serialised. */
async function openTransaction(count: number): Promise<{ commit: () => Promise<void> }> {
  const stored = Promise.withResolvers<void>();
  const end = Promise.withResolvers<void>();
  const done = transaction(database.sql, async (tx) => {
    const producerId = randomUUID();
    const entries = Array.from({ length: count }, () => {
      const { entry, origin } = testLog.nextEntry();
      return { entry, origin: { ...origin, producerId } };
    });
    await store(tx as unknown as Sql, entries);
    stored.resolve();
    await end.promise;
  });
  await Promise.race([stored.promise, done]);
  return {
    async commit() {
      end.resolve();
      await done;
    },
  };
}
