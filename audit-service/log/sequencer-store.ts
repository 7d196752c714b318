import type { Sql } from "../../service-kit/postgres.ts";
import { columns, type EntryRow, fromRow, type StoredEntry, sequenceOf } from "../entries/entry-store.ts";
import type { TreeNode } from "./merkle-tree.ts";

/** Arbitrary, and the same in every version: who holds it numbers. */
const ADVISORY_LOCK = 7_031_011;

/** An entry's place in the tree. */
export interface Leaf {
  sequence: number;
  position: bigint;
  receivedAt: Date;
  leafHash: Buffer;
  chainHash: Buffer;
}

/** What one step of the sequencer writes, all or nothing. */
export interface SequencedBatch {
  leaves: readonly Leaf[];
  subtrees: readonly (TreeNode & { hash: Buffer })[];
  checkpoint?:
    | { origin: string; size: number; rootHash: Buffer; note: string; floorPosition: bigint }
    | undefined;
}

/** Tries to become the sequencer, for as long as this connection lives. @throws {DomainError} `service_unavailable`. */
export async function tryLock(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`
    select pg_try_advisory_lock(${ADVISORY_LOCK}) as locked
  `;
  return row?.locked === true;
}

/** Stops being the sequencer, however often the lock was taken. @throws {DomainError} `service_unavailable`. */
export async function unlock(sql: Sql): Promise<void> {
  await sql`select pg_advisory_unlock_all()`;
}

/** What the sequencer looks at before it reads entries. */
export interface Surroundings {
  /** Whether this connection still holds the lock. */
  isSequencer: boolean;
  /** The open transactions that have stored entries, or are about to. */
  writers: ReadonlySet<string>;
}

/**
 * A transaction locks `log_entries` before it takes a position, until it has committed: once those that were seen here
 * are gone, whatever position they took is either visible or never will be. Clocks and transaction ids say less: an id
 * is taken later than a position, and neither survives a restore.
 *
 * @throws {DomainError} `service_unavailable`.
 */
export async function selectSurroundings(sql: Sql): Promise<Surroundings> {
  const rows = await sql<{ writer: string | null }[]>`
    select case when locktype = 'relation' then virtualtransaction end as writer from pg_locks
    where database = (select oid from pg_database where datname = current_database()) and granted and (
      locktype = 'relation' and relation = 'log_entries'::regclass and mode = 'RowExclusiveLock'
      or locktype = 'advisory' and objid = ${ADVISORY_LOCK} and pid = pg_backend_pid()
    )
  `;
  const writers = rows.flatMap(({ writer }) => (writer === null ? [] : [writer]));
  return { isSequencer: rows.some(({ writer }) => writer === null), writers: new Set(writers) };
}

/** All entries at or below this position have a number. */
export interface Floor {
  position: bigint;
  /** Every entry above the position has a higher number than this, or none. 0 if unknown. */
  sequence: number;
}

/**
 * Unnumbered entries above a floor, in the order of storing.
 *
 * @param before only entries received before this; undefined for all.
 * @throws {DomainError} `service_unavailable`.
 */
export async function selectUnnumbered(
  sql: Sql,
  floor: Floor,
  limit: number,
  before: Date | undefined,
): Promise<StoredEntry[]> {
  const rows = await sql<EntryRow[]>`
    select ${columns(sql, sql`null::bigint`)} from log_entries as e
    where e.position > ${floor.position.toString()}
      and ${sequenceOf(sql, floor.sequence)} is null
      ${before === undefined ? sql`` : sql`and e.received_at < ${before}`}
    order by e.position
    limit ${limit}
  `;
  return rows.map(fromRow);
}

/** The highest position that is visible now. @throws {DomainError} `service_unavailable`. */
export async function selectLastPosition(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ position: string | null }[]>`
    select max(position) as position from log_entries
  `;
  return BigInt(row?.position ?? 0);
}

/** Whether another transaction of ours that began before this time is open: it may still store entries of that time. */
export async function hasTransactionFromBefore(sql: Sql, time: Date): Promise<boolean> {
  const [row] = await sql<{ open: boolean }[]>`
    select exists (
      select from pg_stat_activity
      where datname = current_database() and usename = current_user and pid <> pg_backend_pid() and xact_start < ${time}
    ) as open
  `;
  return row?.open === true;
}

/**
 * Commits what was numbered and signed. A number or an entry that another sequencer has used already is an error, so
 * two that believe in themselves cannot both write.
 *
 * @throws {DomainError} `service_unavailable`; then it may or may not be committed.
 */
export async function insertBatch(sql: Sql, { leaves, subtrees, checkpoint }: SequencedBatch): Promise<void> {
  const leafRows = JSON.stringify(
    leaves.map((leaf) => ({
      sequence: leaf.sequence,
      position: leaf.position.toString(),
      received_at: leaf.receivedAt.toISOString(),
      leaf_hash: leaf.leafHash.toString("hex"),
      chain_hash: leaf.chainHash.toString("hex"),
    })),
  );
  const subtreeRows = JSON.stringify(
    subtrees.map(({ hash, ...node }) => ({ ...node, hash: hash.toString("hex") })),
  );
  const checkpointRows = JSON.stringify(
    checkpoint === undefined
      ? []
      : [
          {
            origin: checkpoint.origin,
            size: checkpoint.size,
            root_hash: checkpoint.rootHash.toString("hex"),
            note: checkpoint.note,
            floor_position: checkpoint.floorPosition.toString(),
          },
        ],
  );
  await sql`
    with numbered as (
      insert into leaves (sequence, position, received_at, leaf_hash, chain_hash)
      select sequence, position, received_at, decode(leaf_hash, 'hex'), decode(chain_hash, 'hex')
      from json_to_recordset(${leafRows}::text::json)
        as l (sequence bigint, position bigint, received_at timestamptz, leaf_hash text, chain_hash text)
    ), completed as (
      insert into subtrees (level, index, hash)
      select level, index, decode(hash, 'hex')
      from json_to_recordset(${subtreeRows}::text::json) as s (level smallint, index bigint, hash text)
    )
    insert into checkpoints (origin, size, root_hash, note, floor_position)
    select origin, size, decode(root_hash, 'hex'), note, floor_position
    from json_to_recordset(${checkpointRows}::text::json)
      as c (origin text, size bigint, root_hash text, note text, floor_position bigint)
  `;
}
