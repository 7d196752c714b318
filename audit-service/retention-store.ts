import { orUnavailable, type Sql } from "../service-kit/postgres.ts";

/** A range of entries that retention has taken away. */
export interface Removal {
  firstSequence: number;
  lastSequence: number;
  partitionName: string;
  note: string;
}

/** In the order of sequences. @throws {DomainError} `service_unavailable`. */
export async function selectRemovals(sql: Sql): Promise<Removal[]> {
  const rows = await orUnavailable(
    sql<
      { first_sequence: string; last_sequence: string; partition_name: string; note: string }[]
    >`select * from removals order by first_sequence`,
  );
  return rows.map((row) => ({
    firstSequence: Number(row.first_sequence),
    lastSequence: Number(row.last_sequence),
    partitionName: row.partition_name,
    note: row.note,
  }));
}

/** @throws {DomainError} `service_unavailable`. */
export async function insertRemoval(sql: Sql, removal: Removal): Promise<void> {
  await orUnavailable(sql`
    insert into removals (first_sequence, last_sequence, partition_name, note)
    values (${removal.firstSequence}, ${removal.lastSequence}, ${removal.partitionName}, ${removal.note})
  `);
}

/** Names of the log's monthly partitions, oldest first: `log_entries_2026_11`. */
export async function selectPartitions(sql: Sql): Promise<string[]> {
  const rows = await orUnavailable(sql<{ name: string }[]>`
    select c.relname as name from pg_inherits as i join pg_class as c on c.oid = i.inhrelid
    where i.inhparent = 'log_entries'::regclass and c.relname ~ '^log_entries_\\d{4}_\\d{2}$'
    order by c.relname
  `);
  return rows.map(({ name }) => name);
}

/** Makes this month's partition and as many after it, if they are missing. */
export async function createPartitions(sql: Sql, monthsAhead: number): Promise<void> {
  await orUnavailable(sql`select create_log_partitions(${monthsAhead})`);
}

/** Takes a partition with a removal on record out of the log; its table stays, for the owner. */
export async function detachPartition(sql: Sql, name: string): Promise<void> {
  await orUnavailable(sql`select detach_log_partition(${name})`);
}

/** What a month leaves behind when it goes: `last` is its last number. */
export interface Cut {
  first: number;
  last: number;
  /** End of the month. */
  ending: Date;
  /** Every entry up to here has its number. */
  floorPosition: bigint;
}

/**
 * Whether the numbers up to `last` are exactly those of the entries received before `ending`.
 *
 * @throws {DomainError} `service_unavailable`.
 */
export async function isCleanCut(sql: Sql, { first, last, ending, floorPosition }: Cut): Promise<boolean> {
  const [row] = await orUnavailable(sql<{ unclean: boolean }[]>`
    select exists (select from leaves where sequence > ${last} and received_at < ${ending})
      or exists (select from leaves where sequence between ${first} and ${last} and received_at >= ${ending})
      or exists (select from log_entries where received_at < ${ending} and position > ${floorPosition.toString()})
      as unclean
  `);
  return row?.unclean === false;
}

/** Erases what is kept beside the log of entries that were removed. */
export async function deleteBesides(sql: Sql, before: Date): Promise<void> {
  await orUnavailable(sql`delete from claimed_emails where received_at < ${before}`);
  await orUnavailable(sql`delete from open_intents where received_at < ${before}`);
}

/** Whether entries lie in the partition that should not be needed. */
export async function hasStrayEntries(sql: Sql): Promise<boolean> {
  const [row] = await orUnavailable(sql<{ stray: boolean }[]>`
    select exists (select from log_entries_default) as stray
  `);
  return row?.stray === true;
}
