import type { Sql } from "../../service-kit/postgres.ts";

/** A range of entries that retention has taken away. */
export interface Removal {
  firstSequence: number;
  lastSequence: number;
  partitionName: string;
  note: string;
}

/** In the order of sequences. @throws {DomainError} `service_unavailable`. */
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

/** @throws {DomainError} `service_unavailable`. */
export async function insertRemoval(sql: Sql, removal: Removal): Promise<void> {
  await sql`
    insert into removals (first_sequence, last_sequence, partition_name, note)
    values (${removal.firstSequence}, ${removal.lastSequence}, ${removal.partitionName}, ${removal.note})
  `;
}

/** Names of the log's monthly partitions, oldest first: `log_entries_2026_11`. */
export async function selectPartitions(sql: Sql): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select c.relname as name from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'log_entries'::regclass and c.relname ~ '^log_entries_\\d{4}_\\d{2}$'
    order by c.relname
  `;
  return rows.map(({ name }) => name);
}

/** Makes this month's partition and as many after it, if they are missing. */
export async function createPartitions(sql: Sql, monthsAhead: number): Promise<void> {
  await sql`select create_log_partitions(${monthsAhead})`;
}

/** Creates the partitions for upcoming numbers, if they are missing. */
export async function createLeafPartitions(sql: Sql): Promise<void> {
  await sql`select create_leaf_partitions()`;
}

/** Takes a partition with a removal on record out of the log; its table stays, for the owner. */
export async function detachPartition(sql: Sql, name: string): Promise<void> {
  await sql`select detach_log_partition(${name})`;
}

/** What a month leaves behind when it goes. */
export interface Cut {
  /** Its last number. */
  last: number;
  /** End of the month. */
  ending: Date;
  /** Every entry up to here has its number. */
  floorPosition: bigint;
}

/** Whether the numbers up to `last` are exactly those of the entries received before `ending`. */
export async function isCleanCut(sql: Sql, { last, ending, floorPosition }: Cut): Promise<boolean> {
  const [row] = await sql<{ unclean: boolean }[]>`
    select exists (select from log_months where month < ${ending}::timestamptz at time zone 'UTC' and last_sequence > ${last})
      or exists (select from log_months where month >= ${ending}::timestamptz at time zone 'UTC' and first_sequence <= ${last})
      or exists (select from log_entries where received_at < ${ending} and position > ${floorPosition.toString()})
      as unclean
  `;
  return row?.unclean === false;
}

/** Removals with something left beside the log, oldest first. */
export async function selectUncleanRemovals(sql: Sql): Promise<Removal[]> {
  return removalsOf(
    await sql<RemovalRow[]>`
      select r.* from removals as r where not exists (select from removal_cleanups as c where c.first_sequence = r.first_sequence)
      order by r.first_sequence
    `,
  );
}

/** Notes that nothing is left of a removal beside the log. */
export async function insertRemovalCleanup(sql: Sql, { firstSequence }: Removal): Promise<void> {
  await sql`insert into removal_cleanups (first_sequence) values (${firstSequence}) on conflict do nothing`;
}

/**
 * Erases the claimed addresses of entries received before a time, in the order of positions.
 *
 * @param after the position that the batch before has reached; 0 for the first.
 * @returns the position that this one has reached; undefined once none of a batch is that old.
 */
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

/** Erases intents of before a time that nobody has closed. @returns how many, at most `limit`. */
export async function deleteForgottenIntents(sql: Sql, before: Date, limit: number): Promise<number> {
  const { count } = await sql`
    delete from open_intents where call_id = any(array(
      select call_id from open_intents where received_at < ${before} order by received_at limit ${limit}
    ))
  `;
  return count;
}

/** Whether entries lie in the partition that should not be needed. */
export async function hasStrayEntries(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ stray: boolean }[]>`
    select exists (select from log_entries_default) as stray
  `;
  return row?.stray === true;
}
