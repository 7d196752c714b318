import type { Sql } from "#kit/database/postgres.ts";

export interface Removal {
  firstSequence: number;
  lastSequence: number;
  partitionName: string;
  note: string;
}

export async function selectRemovals(sql: Sql): Promise<Removal[]> {
  return removalsOf(await sql<RemovalRow[]>`select * from removals order by first_sequence`);
}

interface RemovalRow {
  first_sequence: string;
  last_sequence: string;
  partition_name: string;
  note: string;
}

function removalsOf(rows: readonly RemovalRow[]): Removal[] {
  return rows.map((row) => ({
    firstSequence: Number(row.first_sequence),
    lastSequence: Number(row.last_sequence),
    partitionName: row.partition_name,
    note: row.note,
  }));
}

export async function insertRemoval(sql: Sql, removal: Removal): Promise<void> {
  await sql`
    insert into removals (first_sequence, last_sequence, partition_name, note)
    values (${removal.firstSequence}, ${removal.lastSequence}, ${removal.partitionName}, ${removal.note})
  `;
}

/** Oldest first: `log_entries_2026_11`. */
export async function selectPartitions(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select c.relname as name from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'log_entries'::regclass and c.relname ~ '^log_entries_\\d{4}_\\d{2}$'
    order by c.relname
  `;
  return rows.map(({ name }) => name);
}

export async function createPartitions(sql: Sql, monthsAhead: number): Promise<void> {
  await sql`select create_log_partitions(${monthsAhead})`;
}

export async function createLeafPartitions(sql: Sql): Promise<void> {
  await sql`select create_leaf_partitions()`;
}

/** Requires a recorded removal. Does not drop the table. */
export async function detachPartition(sql: Sql, name: string): Promise<void> {
  await sql`select detach_log_partition(${name})`;
}

export interface Cut {
  last: number;
  ending: Date;
  /** Every entry up to this position has a number. */
  floorPosition: bigint;
}

/** The number before the first of all later months. Undefined without one. */
export async function selectCut(sql: Sql, ending: Date): Promise<number | undefined> {
  const [row] = await sql<{ last: string | null }[]>`
    select min(first_sequence) - 1 as last from log_months where month >= ${ending}::timestamptz at time zone 'UTC'
  `;
  return row?.last == null ? undefined : Number(row.last);
}

/** True if exactly the entries received before `ending` have numbers up to `last`. */
export async function isCleanCut(sql: Sql, { last, ending, floorPosition }: Cut): Promise<boolean> {
  const [row] = await sql<{ unclean: boolean }[]>`
    select exists (select from log_months where month < ${ending}::timestamptz at time zone 'UTC' and last_sequence > ${last})
      or exists (select from log_months where month >= ${ending}::timestamptz at time zone 'UTC' and first_sequence <= ${last})
      or exists (select from log_entries where received_at < ${ending} and position > ${floorPosition.toString()})
      as unclean
  `;
  return row?.unclean === false;
}

export async function selectUncleanRemovals(sql: Sql): Promise<Removal[]> {
  return removalsOf(
    await sql<RemovalRow[]>`
      select r.* from removals as r where not exists (select from removal_cleanups as c where c.first_sequence = r.first_sequence)
      order by r.first_sequence
    `,
  );
}

export async function insertRemovalCleanup(sql: Sql, { firstSequence }: Removal): Promise<void> {
  await sql`insert into removal_cleanups (first_sequence) values (${firstSequence}) on conflict do nothing`;
}

/** @param after Previous result, or 0. @returns the last position of the batch, or undefined at the end. */
export async function deleteClaims(
  sql: Sql,
  { before, after, limit }: { before: Date; after: bigint; limit: number },
): Promise<bigint | undefined> {
  const [row] = await sql<{ reached: string | null; deleted: number }[]>`
    with batch as materialized (
      select position, received_at from claimed_emails where position > ${after.toString()}
      order by position limit ${limit}
    ), deleted as (
      delete from claimed_emails where position = any(array(select position from batch where received_at < ${before}))
      returning 1
    )
    select (select max(position) from batch) as reached, (select count(*)::int from deleted) as deleted
  `;
  return row?.reached == null || row.deleted === 0 ? undefined : BigInt(row.reached);
}

export async function deleteForgottenIntents(sql: Sql, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from open_intents where call_id = any(array(
      select call_id from open_intents where received_at < ${before} order by received_at limit ${limit}
    ))
  `;
  return count;
}

export async function hasStrayEntries(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ stray: boolean }[]>`
    select exists (select from log_entries_default) as stray
  `;
  return row?.stray === true;
}

/** Months since year 0 in UTC. */
export function monthOf(time: Date): number {
  return time.getUTCFullYear() * 12 + time.getUTCMonth();
}

export function startOfMonth(month: number): Date {
  return new Date(Date.UTC(Math.floor(month / 12), month % 12));
}
