import { orUnavailable, type Sql } from "../service-kit/postgres.ts";
import type { Entry, ProducedEntry } from "./entry.ts";

/** Name of the constraint that keeps entry ids unique. */
export const ENTRY_ID_KEY = "entries_id_key";

/** Which entries a search wants. What is undefined does not narrow it. */
export interface EntryFilter {
  actorUserId?: string | undefined;
  action?: string | undefined;
  resource?: string | undefined;
  requestId?: string | undefined;
  outcome?: "success" | "failure" | "unknown" | undefined;
  /** Inclusive. */
  from?: Date | undefined;
  /** Exclusive. */
  to?: Date | undefined;
  /** Only entries stored before the one with this position. */
  beforePosition?: bigint | undefined;
}

/** An entry with its place in the order of storing. */
export interface StoredEntry {
  position: bigint;
  entry: Entry;
}

/**
 * Stores entries in this order, each exactly once: what its producer has stored before is left as it is. When this
 * resolves, all of them are committed.
 *
 * One parameter whatever the number of entries: one prepared statement, and native JSON in place of thousands of
 * bound values. As text first, because the driver would encode a json parameter a second time.
 *
 * @returns how many were new.
 * @throws {DomainError} `service_unavailable`; then they may or may not be committed.
 */
export async function insertEntries(sql: Sql, entries: readonly ProducedEntry[]): Promise<number> {
  const result = await orUnavailable(sql`
    insert into entries (
      id, producer_id, producer_sequence, producer_name, occurred_at, kind, call_id,
      actor_user_id, actor_role, actor_session_id, claimed_email, client_ip, user_agent,
      method, route, resource, action, request_id, trace_id, outcome, error_code, reason, http_status, latency_us
    )
    select * from json_to_recordset(${JSON.stringify(entries.map(toRow))}::text::json) as entry (
      id uuid, producer_id uuid, producer_sequence bigint, producer_name text, occurred_at timestamptz, kind text,
      call_id text, actor_user_id text, actor_role text, actor_session_id text, claimed_email text, client_ip text,
      user_agent text, method text, route text, resource text, action text, request_id text, trace_id text,
      outcome text, error_code text, reason text, http_status integer, latency_us bigint
    )
    on conflict (producer_id, producer_sequence) do nothing
  `);
  return result.count;
}

/**
 * The newest entries that match, newest first.
 *
 * @throws {DomainError} `service_unavailable`.
 */
export async function selectEntries(sql: Sql, filter: EntryFilter, limit: number): Promise<StoredEntry[]> {
  const { actorUserId, action, resource, requestId, outcome, from, to, beforePosition } = filter;
  const rows = await orUnavailable(sql<EntryRow[]>`
    select ${columns(sql)} from entries
    where true
      ${actorUserId === undefined ? sql`` : sql`and actor_user_id = ${actorUserId}`}
      ${action === undefined ? sql`` : sql`and action = ${action}`}
      ${resource === undefined ? sql`` : sql`and resource = ${resource}`}
      ${requestId === undefined ? sql`` : sql`and request_id = ${requestId}`}
      ${outcome === undefined ? sql`` : sql`and outcome = ${outcome}`}
      ${from === undefined ? sql`` : sql`and occurred_at >= ${from}`}
      ${to === undefined ? sql`` : sql`and occurred_at < ${to}`}
      ${beforePosition === undefined ? sql`` : sql`and position < ${beforePosition.toString()}`}
    order by position desc
    limit ${limit}
  `);
  return rows.map(fromRow);
}

/**
 * The stored ones among the entries with these ids.
 *
 * @throws {DomainError} `service_unavailable`.
 */
export async function selectEntriesById(sql: Sql, ids: readonly string[]): Promise<Entry[]> {
  const rows = await orUnavailable(sql<EntryRow[]>`
    select ${columns(sql)} from entries where id = any(${ids as string[]}::uuid[])
  `);
  return rows.map((row) => fromRow(row).entry);
}

/** Throws unless the database answers and has the table. */
export async function assertReadable(sql: Sql): Promise<void> {
  await sql`select from entries limit 0`;
}

interface EntryRow {
  position: string;
  id: string;
  occurred_at: Date;
  kind: Entry["kind"];
  call_id: string;
  actor_user_id: string;
  actor_role: string;
  actor_session_id: string;
  claimed_email: string;
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

function columns(sql: Sql) {
  return sql`
    position, id, occurred_at, kind, call_id, actor_user_id, actor_role, actor_session_id, claimed_email,
    client_ip, user_agent, method, route, resource, action, request_id, trace_id,
    outcome, error_code, reason, http_status, latency_us
  `;
}

function toRow({ entry, origin }: ProducedEntry) {
  return {
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
    claimed_email: entry.actor.claimedEmail,
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

function fromRow(row: EntryRow): StoredEntry {
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
        claimedEmail: row.claimed_email,
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
    },
  };
}
