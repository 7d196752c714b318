import type { Sql } from "#kit/database/postgres.ts";
import { dayOf } from "./clean-entry.ts";
import type { Entry, LogEntry, ProducedEntry } from "./entry.ts";
import type { PageEnd } from "./search-cursor.ts";

/** Constraints of each day's table. */
const ENTRY_ID_KEYS = /^stored_keys(_default|_\d{4}_\d{2}_\d{2})?_id_(day_)?key$/;

export function isIdTaken(error: unknown): boolean {
  const failure = error as { code?: unknown; constraint_name?: unknown } | null;
  return failure?.code === "23505" && ENTRY_ID_KEYS.test(String(failure.constraint_name));
}

export interface EntryFilter {
  actorUserId?: string | undefined;
  /** A name; with a dot at its end, the beginning of names. */
  action?: string | undefined;
  resource?: string | undefined;
  requestId?: string | undefined;
  outcome?: "success" | "failure" | "unknown" | undefined;
  withoutActions?: readonly string[] | undefined;
  from?: Date | undefined;
  to?: Date | undefined;
  /** Last entry of the previous page. */
  after?: Omit<PageEnd, "log"> | undefined;
}

export interface StoredEntry {
  position: bigint;
  entry: LogEntry;
}

export interface InsertedEntry extends ProducedEntry {
  claimedEmailHash: string;
  /** 32 bytes. */
  claimedEmailSalt: Buffer | undefined;
}

/**
 * Stores each entry once, in this order. Origins must be distinct. One JSON parameter allows one prepared statement; the
 * driver would encode json twice, so it is text.
 * @throws {DomainError} `service_unavailable`; the entries may or may not be committed.
 */
export async function insertEntries(sql: Sql, entries: readonly InsertedEntry[]): Promise<number> {
  const [row] = await sql<{ stored: number }[]>`
    with source as materialized (
      select * from json_to_recordset(${JSON.stringify(entries.map(toRow))}::text::json) as entry (
        place integer, day date, id uuid, producer_id uuid, producer_sequence bigint, producer_name text, occurred_at timestamptz, kind text,
        call_id text, actor_user_id text, actor_role text, actor_session_id text, claimed_email_hash text,
        claimed_email text, claimed_email_salt text, client_ip text, user_agent text, method text, route text,
        resource text, action text, request_id text, trace_id text, outcome text, error_code text, reason text,
        http_status integer, latency_us bigint
      )
    ), keys as (
      insert into stored_keys (day, producer_name, producer_id, producer_sequence, id)
      select day, producer_name, producer_id, producer_sequence, id from source order by place
      on conflict (producer_id, producer_sequence, producer_name, day) do nothing
      returning position, received_at, producer_name, producer_id, producer_sequence
    ), stored as (
      insert into log_entries (
        position, received_at, id, producer_id, producer_sequence, producer_name, occurred_at, kind, call_id,
        actor_user_id, actor_role, actor_session_id, claimed_email_hash, client_ip, user_agent,
        method, route, resource, action, request_id, trace_id, outcome, error_code, reason, http_status, latency_us
      )
      select k.position, k.received_at, s.id, k.producer_id, k.producer_sequence, k.producer_name, s.occurred_at,
        s.kind, s.call_id, s.actor_user_id, s.actor_role, s.actor_session_id, s.claimed_email_hash, s.client_ip,
        s.user_agent, s.method, s.route, s.resource, s.action, s.request_id, s.trace_id, s.outcome, s.error_code,
        s.reason, s.http_status, s.latency_us
      from keys as k join source as s using (producer_id, producer_sequence, producer_name)
    ), claims as (
      insert into claimed_emails (position, received_at, salt, address)
      select k.position, k.received_at, decode(s.claimed_email_salt, 'hex'), s.claimed_email
      from keys as k join source as s using (producer_id, producer_sequence, producer_name)
      where s.claimed_email_salt is not null
    ), opened as (
      insert into open_intents (call_id, producer_id, position, received_at)
      select s.call_id, k.producer_id, k.position, k.received_at
      from keys as k join source as s using (producer_id, producer_sequence, producer_name)
      where s.kind = 'intent' and s.call_id <> ''
        and s.call_id not in (select call_id from source where kind = 'outcome' and call_id is not null)
      on conflict (call_id) do nothing
    ), ended as (
      delete from open_intents where call_id = any(array(select call_id from source where kind = 'outcome'))
    )
    select count(*)::int as stored from keys
  `;
  return row?.stored ?? 0;
}

export async function selectEntries(sql: Sql, filter: EntryFilter, limit: number): Promise<StoredEntry[]> {
  const { actorUserId, action, resource, requestId, outcome, withoutActions = [], from, to, after } = filter;
  // `<> ''` allows the use of partial indexes.
  const rows = await sql<EntryRow[]>`
    select ${columns(sql)} from (
      select * from log_entries
      where true
        ${actorUserId === undefined ? sql`` : sql`and actor_user_id = ${actorUserId} and actor_user_id <> ''`}
        ${action === undefined ? sql`` : isAction(sql, action)}
        ${resource === undefined ? sql`` : sql`and resource = ${resource} and resource <> ''`}
        ${requestId === undefined ? sql`` : sql`and request_id = ${requestId} and request_id <> ''`}
        ${outcome === undefined ? sql`` : sql`and outcome = ${outcome} and outcome <> ''`}
        ${withoutActions.length === 0 ? sql`` : sql`and action <> all(${withoutActions as string[]})`}
        ${from === undefined ? sql`` : sql`and occurred_at >= ${from}`}
        ${to === undefined ? sql`` : sql`and occurred_at < ${to}`}
        ${after === undefined ? sql`` : sql`and (occurred_at, position) < (${after.occurredAt}, ${after.position.toString()})`}
      order by occurred_at desc, position desc
      limit ${limit}
    ) as e
    order by occurred_at desc, position desc
  `;
  return rows.map(fromRow);
}

/** "auth." is all from there to "auth/": the slash follows the dot. */
const isAction = (sql: Sql, action: string) =>
  action.endsWith(".")
    ? sql`and action >= ${action} and action < ${`${action.slice(0, -1)}/`}`
    : sql`and action = ${action}`;

export async function selectEntriesById(sql: Sql, ids: readonly string[]): Promise<LogEntry[]> {
  const rows = await sql<EntryRow[]>`
    select ${columns(sql)} from log_entries as e where id = any(${ids as string[]}::uuid[])
  `;
  return rows.map((row) => fromRow(row).entry);
}

export interface ProvenEntry {
  entry: LogEntry;
  leafHash: Buffer;
  chainHash: Buffer;
  /** Undefined after an erasure. */
  claimedEmailSalt: Buffer | undefined;
}

export async function selectProvenEntries(
  sql: Sql,
  { first, last }: { first: number; last: number },
): Promise<ProvenEntry[]> {
  const rows = await sql<ProvenRow[]>`
    select ${columns(sql)}, l.leaf_hash, l.chain_hash,
      (select c.salt from claimed_emails as c where c.position = e.position) as claimed_email_salt
    from leaves as l
    join lateral (
      select * from log_entries as stored where stored.position = l.position and stored.received_at = l.received_at limit 1
    ) as e on true
    where l.sequence between ${first} and ${last}
    order by l.sequence
  `;
  return rows.map((row) => ({
    entry: fromRow(row).entry,
    leafHash: row.leaf_hash,
    chainHash: row.chain_hash,
    claimedEmailSalt: row.claimed_email_salt ?? undefined,
  }));
}

export async function deleteClaimedEmail(sql: Sql, address: string): Promise<number> {
  const { count } = await sql`delete from claimed_emails where lower(address) = lower(${address})`;
  return count;
}

export async function createKeyPartitions(sql: Sql, daysAhead: number): Promise<void> {
  await sql`select create_key_partitions(${daysAhead})`;
}

export async function dropKeyPartitions(sql: Sql, keptDays: number): Promise<number> {
  const [row] = await sql<{ dropped: number }[]>`select drop_key_partitions(${keptDays}) as dropped`;
  return row?.dropped ?? 0;
}

/** Only keys outside the daily tables. */
export async function deleteOldKeys(sql: Sql, keptDays: number, limit: number): Promise<number> {
  const { count } = await sql`
    delete from stored_keys_default where ctid = any(array(
      select ctid from stored_keys_default where received_at < now() - make_interval(days => ${keptDays})
      order by received_at limit ${limit}
    ))
  `;
  return count;
}

export async function assertReadable(sql: Sql): Promise<void> {
  await sql`select from log_entries limit 0`;
}

export interface EntryRow {
  position: string;
  sequence: string | null;
  received_at: Date;
  producer_name: string;
  id: string;
  occurred_at: Date;
  kind: Entry["kind"];
  call_id: string;
  actor_user_id: string;
  actor_role: string;
  actor_session_id: string;
  claimed_email: string | null;
  claimed_email_hash: string;
  client_ip: string;
  user_agent: string;
  method: string;
  route: string;
  resource: string;
  action: string;
  request_id: string;
  trace_id: string;
  outcome: Entry["outcome"];
  error_code: string;
  reason: string;
  http_status: number;
  latency_us: string;
}

interface ProvenRow extends EntryRow {
  leaf_hash: Buffer;
  chain_hash: Buffer;
  claimed_email_salt: Buffer | null;
}

/** The range of the month prunes the partitions of leaves. */
function sequenceOf(sql: Sql) {
  return sql`(
    select l.sequence from log_months as m
    cross join lateral (
      select sequence from leaves
      where position = e.position and sequence between m.first_sequence and m.last_sequence limit 1
    ) as l
    where m.month = date_trunc('month', e.received_at at time zone 'UTC')::date
  )`;
}

/** Subqueries, because the plan of a join would depend on estimates. */
export function columns(sql: Sql, sequence = sequenceOf(sql)) {
  return sql`
    e.position, e.received_at, e.producer_name, e.id, e.occurred_at, e.kind, e.call_id, e.actor_user_id, e.actor_role,
    e.actor_session_id, e.claimed_email_hash, e.client_ip, e.user_agent, e.method, e.route, e.resource, e.action,
    e.request_id, e.trace_id, e.outcome, e.error_code, e.reason, e.http_status, e.latency_us,
    ${sequence} as sequence,
    (select c.address from claimed_emails as c where c.position = e.position) as claimed_email
  `;
}

function toRow({ entry, origin, claimedEmailHash, claimedEmailSalt }: InsertedEntry, place: number) {
  return {
    place,
    day: origin.day ?? dayOf(entry.occurredAt),
    id: entry.id,
    producer_id: origin.producerId,
    producer_sequence: origin.sequence,
    producer_name: origin.producerName,
    occurred_at: entry.occurredAt.toISOString(),
    kind: entry.kind,
    call_id: entry.callId,
    actor_user_id: entry.actor.userId,
    actor_role: entry.actor.role,
    actor_session_id: entry.actor.sessionId,
    claimed_email_hash: claimedEmailHash,
    ...(claimedEmailSalt && {
      claimed_email: entry.actor.claimedEmail,
      claimed_email_salt: claimedEmailSalt.toString("hex"),
    }),
    client_ip: entry.clientIp,
    user_agent: entry.userAgent,
    method: entry.method,
    route: entry.route,
    resource: entry.resource,
    action: entry.action,
    request_id: entry.requestId,
    trace_id: entry.traceId,
    outcome: entry.outcome,
    error_code: entry.errorCode,
    reason: entry.reason,
    http_status: entry.httpStatus,
    latency_us: entry.latencyUs,
  };
}

export function fromRow(row: EntryRow): StoredEntry {
  return {
    position: BigInt(row.position),
    entry: {
      id: row.id,
      kind: row.kind,
      callId: row.call_id,
      occurredAt: row.occurred_at,
      actor: {
        userId: row.actor_user_id,
        role: row.actor_role,
        sessionId: row.actor_session_id,
        claimedEmail: row.claimed_email ?? "",
        claimedEmailHash: row.claimed_email_hash,
      },
      clientIp: row.client_ip,
      userAgent: row.user_agent,
      method: row.method,
      route: row.route,
      resource: row.resource,
      action: row.action,
      requestId: row.request_id,
      traceId: row.trace_id,
      outcome: row.outcome,
      errorCode: row.error_code,
      reason: row.reason,
      httpStatus: row.http_status,
      latencyUs: Number(row.latency_us),
      sequence: Number(row.sequence ?? 0),
      receivedAt: row.received_at,
      producer: row.producer_name,
    },
  };
}
