import type { Sql } from "#kit/database/postgres.ts";
import type { LogEntry } from "../entries/entry.ts";
import { columns, type EntryRow, fromRow as entryFromRow } from "../entries/entry-store.ts";

export interface StoredCheckpoint {
  size: number;
  rootHash: Buffer;
  note: string;
  /** Every entry up to this position has a number. */
  floorPosition: bigint;
  createdAt: Date;
}

interface CheckpointRow {
  size: string;
  root_hash: Buffer;
  note: string;
  floor_position: string;
  created_at: Date;
}

export async function selectLastCheckpoint(sql: Sql, origin: string): Promise<StoredCheckpoint | undefined> {
  const rows = await sql<CheckpointRow[]>`
    select * from checkpoints where origin = ${origin} order by size desc limit 1
  `;
  return rows.map(fromRow)[0];
}

export async function selectCheckpointCovering(
  sql: Sql,
  origin: string,
  size: number,
): Promise<StoredCheckpoint | undefined> {
  const rows = await sql<CheckpointRow[]>`
    select * from checkpoints where origin = ${origin} and size >= ${size} order by size limit 1
  `;
  return rows.map(fromRow)[0];
}

/** The one of these origins under which the database has checkpoints. */
export async function selectOriginAmong(sql: Sql, origins: readonly string[]): Promise<string | undefined> {
  const [row] = await sql<{ origin: string }[]>`
    select origin from checkpoints where origin = any(${origins as string[]}) limit 1
  `;
  return row?.origin;
}

/** Excludes `after`, includes `last`. */
export async function selectCheckpoints(
  sql: Sql,
  origin: string,
  { after, last, limit }: { after: number; last: number; limit: number },
): Promise<StoredCheckpoint[]> {
  const rows = await sql<CheckpointRow[]>`
    select * from checkpoints where origin = ${origin} and size > ${after} and size <= ${last} order by size limit ${limit}
  `;
  return rows.map(fromRow);
}

/**
 * The entries of audit-service itself that note a checkpoint of the log of this origin, those stored last first. Other producers may
 * say the same at any time; and an intent of theirs that is closed has their action and our name.
 * @param sql of log 0.
 */
export async function selectNotingEntries(sql: Sql, origin: string, limit: number): Promise<LogEntry[]> {
  const rows = await sql<EntryRow[]>`
    select ${columns(sql)} from (
      select * from log_entries
      where resource = ${origin} and action = 'audit.checkpoint_noted' and producer_name = 'audit-service' and kind = 'event'
      order by position desc limit ${limit}
    ) as e
    order by position desc
  `;
  return rows.map((row) => entryFromRow(row).entry);
}

export async function selectFloor(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ floor: string }[]>`
    select floor_position as floor from checkpoints order by created_at desc limit 1
  `;
  return BigInt(row?.floor ?? 0);
}

function fromRow(row: CheckpointRow): StoredCheckpoint {
  return {
    size: Number(row.size),
    rootHash: row.root_hash,
    note: row.note,
    floorPosition: BigInt(row.floor_position),
    createdAt: row.created_at,
  };
}
