/**
 * The cost of partitioned leaves. Compares numbering, proofs and pages on a single table (migrations up to 0007, with the
 * query of that version) with the same on twelve partitions, where a month spans two of them.
 *
 *   npm run bench:audit-leaves -- [existing leaves, default 2400000]
 */
import { createHash, randomUUID } from "node:crypto";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { producedEntry } from "../audit-service/entries/entry.fixture.ts";
import {
  columns,
  type EntryRow,
  fromRow,
  insertEntries,
  type StoredEntry,
  selectEntries,
} from "../audit-service/entries/entry-store.ts";
import { storeEntries } from "../audit-service/entries/store-entries.ts";
import { SEQUENCER_SESSION } from "../audit-service/log/sequencer.ts";
import { type Floor, insertBatch, selectUnnumbered } from "../audit-service/log/sequencer-store.ts";
import { selectNodes } from "../audit-service/log/tree-store.ts";
import { migrateSchema } from "../deploy/migrate-schema.ts";
import { databaseOf } from "../deploy/service-databases.ts";
import type { Sql } from "../service-kit/postgres.ts";
import { quantile, startWorkbench } from "./support/workbench.ts";

const THERE = Number(process.argv[2] ?? 2_400_000);
const PARTITIONS = 12;
const ROUNDS = 40;
const BATCH = 2_000;
const PROOFS = 200;
const WIDTH = 2 ** 28;

interface Side {
  intake: Sql;
  /** With the sequencer's session settings. */
  sql: Sql;
  number: (floor: Floor) => Promise<StoredEntry[]>;
  size: number;
  stop: () => Promise<void>;
}

async function startSide(isPartitioned: boolean): Promise<Side> {
  const workbench = await startWorkbench();
  const owner = workbench.connectOwner("audit-service");
  if (isPartitioned) {
    const ends = Array.from({ length: PARTITIONS }, (_, index) =>
      Math.floor((THERE * (index + 1)) / PARTITIONS),
    );
    await owner.unsafe(`drop table leaves_below_${WIDTH}, leaves_below_${2 * WIDTH}`);
    for (const [index, end] of ends.entries()) {
      const bound = index === PARTITIONS - 1 ? WIDTH : end;
      await owner.unsafe(`select make_leaf_partition(${index === 0 ? 1 : ends[index - 1]}, ${bound})`);
    }
  } else await oldSchema(owner);
  await owner.unsafe(`
    insert into leaves (sequence, position, received_at, leaf_hash, chain_hash)
    select n, n, now(), sha256(n::text::bytea), sha256(n::text::bytea) from generate_series(1, ${THERE}) as n`);
  await owner.unsafe("vacuum analyze leaves");
  await owner`select setval('entry_keys_position_seq', ${THERE})`;
  const intake = await workbench.connect("audit-service", 1);
  const sql = await workbench.connect("audit-service", 1);
  for (const [name, value] of Object.entries(SEQUENCER_SESSION)) {
    if (!name.includes("timeout")) await sql.unsafe(`set ${name} = '${value}'`);
  }
  return {
    intake,
    sql,
    number: (floor) =>
      isPartitioned ? selectUnnumbered(sql, floor, BATCH, undefined) : selectUnnumberedBefore(sql, floor),
    size: THERE,
    async stop() {
      await Promise.all([intake.end({ timeout: 1 }), sql.end({ timeout: 1 }), owner.end({ timeout: 1 })]);
      await workbench.stop();
    },
  };
}

/** An empty schema with migrations up to 0007. */
async function oldSchema(owner: Sql): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), "gatehouse-bench-"));
  const from = resolve(import.meta.dirname, "..", "audit-service", "migrations");
  cpSync(from, join(root, "audit-service", "migrations"), {
    recursive: true,
    filter: (path) => !path.endsWith(".sql") || path.slice(from.length + 1, from.length + 5) <= "0007",
  });
  await owner.unsafe("drop schema public cascade; create schema public");
  await migrateSchema({ owner, wanted: databaseOf("audit-service"), root });
  rmSync(root, { recursive: true });
}

/** The query of the version without partitions. */
async function selectUnnumberedBefore(sql: Sql, floor: Floor): Promise<StoredEntry[]> {
  const rows = await sql<EntryRow[]>`
    select ${columns(sql, sql`(select l.sequence from leaves as l where l.position = e.position)`)} from log_entries as e
    where e.position > ${floor.position.toString()} and not exists (select from leaves as l where l.position = e.position)
    order by e.position limit ${BATCH}`;
  return rows.map(fromRow);
}

async function milliseconds(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

const WORK: Record<string, (side: Side) => Promise<number>> = {
  async [`number ${BATCH} entries`](side) {
    const producerId = randomUUID();
    const entries = Array.from({ length: BATCH }, (_, index) => {
      const produced = producedEntry(index + 1);
      return { ...produced, origin: { ...produced.origin, producerId } };
    });
    await storeEntries({ insertEntries: (rows) => insertEntries(side.intake, rows) }, entries);
    return milliseconds(async () => {
      const found = await side.number({ position: BigInt(side.size), sequence: side.size });
      const hash = createHash("sha256").update(String(side.size)).digest();
      const leaves = found.map(({ position, entry }, index) => ({
        sequence: side.size + index + 1,
        position,
        receivedAt: entry.receivedAt,
        leafHash: hash,
        chainHash: hash,
      }));
      await insertBatch(side.sql, { leaves, subtrees: [] });
      side.size += leaves.length;
    });
  },
  [`read ${PROOFS} proofs' leaves`]: (side) =>
    milliseconds(async () => {
      for (let count = 0; count < PROOFS; count += 1) {
        const index = Math.floor(Math.random() * (side.size / 128 - 1));
        await selectNodes(side.sql, [{ level: 7, index }]);
      }
    }),
  "read 20 pages of 50": (side) =>
    milliseconds(async () => {
      for (let page = 0; page < 20; page += 1) await selectEntries(side.intake, {}, 50);
    }),
};

const [one, many] = [await startSide(false), await startSide(true)];
const times = new Map(Object.keys(WORK).map((name) => [name, [] as [number, number][]]));
for (let round = 0; round <= ROUNDS; round += 1) {
  for (const [name, work] of Object.entries(WORK)) {
    const order = round % 2 === 0 ? [one, many] : [many, one];
    const taken = new Map<Side, number>();
    for (const side of order) taken.set(side, await work(side));
    // The first round is a warm-up.
    if (round > 0) times.get(name)?.push([taken.get(one) ?? 0, taken.get(many) ?? 0]);
  }
}
for (const [name, pairs] of times) {
  const median = (of: (pair: [number, number]) => number) => quantile(pairs.map(of), 0.5);
  console.log(
    `${name}: one table ${median(([a]) => a).toFixed(1)} ms, ${PARTITIONS} partitions ${median(([, b]) => b).toFixed(1)} ms, ratio ${median(([a, b]) => b / a).toFixed(2)}`,
  );
}
await Promise.all([one.stop(), many.stop()]);
