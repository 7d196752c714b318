import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export interface SlotRow {
  state: "here" | "leaving" | "away";
  /** Of the newest move from or to this database. */
  epoch: number;
  /** The part that it is leaving for. */
  peer: number | null;
}

function columns(sql: Sql | TransactionSql) {
  return sql`state, epoch::float8 as epoch, peer`;
}

export async function readSlot(sql: Sql, slot: number): Promise<SlotRow> {
  const [row] = await sql<SlotRow[]>`select ${columns(sql)} from slots where slot = ${slot}`;
  if (row === undefined) throw new Error(`there is no slot ${slot}`);
  return row;
}

/** Waits for the transactions that add a session to the slot, or end all of a user's. */
export async function lockSlot(tx: TransactionSql, slot: number): Promise<SlotRow> {
  const [row] = await tx<SlotRow[]>`select ${columns(tx)} from slots where slot = ${slot} for update`;
  if (row === undefined) throw new Error(`there is no slot ${slot}`);
  return row;
}

/** The caller holds `lockSlot`. */
export async function writeSlot(tx: TransactionSql, slot: number, row: SlotRow): Promise<void> {
  await tx`update slots set state = ${row.state}, epoch = ${row.epoch}, peer = ${row.peer} where slot = ${slot}`;
  await tx`update part set changes = changes + 1`;
}

/** As a session's id ends. */
function digitsOf(slot: number): string {
  return slot.toString(16).padStart(3, "0");
}

/** What changes a session by its id waits for the commit, and finds no row then. The caller holds `lockSlot`. */
export async function takeOut(tx: TransactionSql, slot: number): Promise<void> {
  await tx`
    with gone as (delete from sessions where right(id::text, 3) = ${digitsOf(slot)} returning *)
    insert into leaving_sessions (slot, id, session) select ${slot}::smallint, id, to_jsonb(gone) from gone
  `;
}

/** JSON of all sessions that are leaving with the slot. */
export async function readLeaving(sql: Sql, slot: number): Promise<string> {
  const [row] = await sql<{ sessions: string }[]>`
    select coalesce(jsonb_agg(session), '[]')::text as sessions from leaving_sessions where slot = ${slot}
  `;
  return row?.sessions ?? "[]";
}

/** Insertion takes up to four times as long as leaving did. Were it cut, it would be cut at each repetition, and the slot be away for good. */
const ARRIVAL_TIMEOUT_MS = 60_000;

/**
 * Replaces what an older state of this database, restored, has of them. The caller holds `lockSlot`.
 * @param lifeS longest remaining life of tokens. @returns of all, and of those that have ended within it.
 */
export async function putIn(
  tx: TransactionSql,
  slot: number,
  sessions: string,
  lifeS: number,
): Promise<{ sessions: number; endedIds: string[] }> {
  await tx`select set_config('statement_timeout', ${String(ARRIVAL_TIMEOUT_MS)}, true)`;
  await dropSessions(tx, slot);
  const { count } = await tx`
    insert into sessions select arrived.*
    from jsonb_array_elements(${sessions}::text::jsonb) as each, jsonb_populate_record(null::sessions, each) as arrived
  `;
  const ended = await tx<{ id: string }[]>`
    select id from sessions
    where right(id::text, 3) = ${digitsOf(slot)} and revoked_at > now() - make_interval(secs => ${lifeS})
  `;
  return { sessions: count, endedIds: ended.map(({ id }) => id) };
}

/** Of a slot that this database does not have. The caller holds `lockSlot`. */
export async function dropSessions(tx: TransactionSql, slot: number): Promise<void> {
  await tx`delete from sessions where right(id::text, 3) = ${digitsOf(slot)}`;
}

export async function listLeaving(sql: Sql): Promise<number[]> {
  const rows = await sql<{ slot: number }[]>`select slot from slots where state = 'leaving'`;
  return rows.map(({ slot }) => slot);
}

/** The caller holds `lockSlot`. */
export async function forgetLeaving(tx: TransactionSql, slot: number): Promise<void> {
  await tx`delete from leaving_sessions where slot = ${slot}`;
}
