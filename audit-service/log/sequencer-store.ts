import type { Sql } from "#kit/database/postgres.ts";
import { columns, type EntryRow, fromRow, type StoredEntry } from "../entries/entry-store.ts";
import type { TreeNode } from "./merkle-tree.ts";

/** Must not change between versions. */
const ADVISORY_LOCK = 7_031_011;

export interface Leaf {
  sequence: number;
  position: bigint;
  receivedAt: Date;
  leafHash: Buffer;
  chainHash: Buffer;
}

export interface SequencedBatch {
  leaves: readonly Leaf[];
  subtrees: readonly (TreeNode & { hash: Buffer })[];
  checkpoint?:
    | { origin: string; size: number; rootHash: Buffer; note: string; floorPosition: bigint }
    | undefined;
}

/** The lock lasts as long as the connection. */
export async function tryLock(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ locked: boolean }[]>`
    select pg_try_advisory_lock(${ADVISORY_LOCK}) as locked
  `;
  return row?.locked === true;
}

export async function unlock(sql: Sql): Promise<void> {
  await sql`select pg_advisory_unlock_all()`;
}

/** The names of replicas that number this log, or would. @param prefix of their connections, before the name. */
export async function selectReplicas(sql: Sql, prefix: string): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    select distinct substr(application_name, length(${prefix}::text) + 1) as name from pg_stat_activity
    where datname = current_database() and usename = current_user and starts_with(application_name, ${prefix})
    order by name
  `;
  return rows.map(({ name }) => name);
}

export interface TermState {
  isSequencer: boolean;
  /** Open transactions that write entries. */
  writers: ReadonlySet<string>;
}

/**
 * Transactions lock `log_entries` from before they take a position until they end. Once the writers seen here are gone,
 * their positions are visible or never will be. A transaction id would come after the position, and does not survive a
 * restore; nor do clocks.
 */
export async function selectTermState(sql: Sql): Promise<TermState> {
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

/** All entries up to this position have a number. */
export interface Floor {
  position: bigint;
  /** Entries above the position have no number up to this. 0 if unknown. */
  sequence: number;
}

/** Ordered by position. @param before Exclusive. */
export async function selectUnnumbered(
  sql: Sql,
  floor: Floor,
  limit: number,
  before: Date | undefined,
): Promise<StoredEntry[]> {
  const rows = await sql<EntryRow[]>`
    select ${columns(sql, sql`null::bigint`)} from log_entries as e
    where e.position > ${floor.position.toString()}
      and not exists (select from leaves as l where l.position = e.position and l.sequence > ${floor.sequence})
      ${before === undefined ? sql`` : sql`and e.received_at < ${before}`}
    order by e.position
    limit ${limit}
  `;
  return rows.map(fromRow);
}

export async function selectLastPosition(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ position: string | null }[]>`
    select max(position) as position from log_entries
  `;
  return BigInt(row?.position ?? 0);
}

/** Such a transaction may still store entries with earlier times. */
export async function hasTransactionFromBefore(sql: Sql, time: Date): Promise<boolean> {
  const [row] = await sql<{ open: boolean }[]>`
    select exists (
      select from pg_stat_activity
      where datname = current_database() and usename = current_user and pid <> pg_backend_pid() and xact_start < ${time}
    ) as open
  `;
  return row?.open === true;
}

/** @throws {DomainError} `service_unavailable`; the batch may or may not be committed. */
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
