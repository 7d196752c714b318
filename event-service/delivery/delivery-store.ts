import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { StreamEvent } from "../stream/event.ts";

type DeliveryState = "waiting" | "delivered" | "given_up";

/** An event on its way to an endpoint. */
export interface Delivery {
  eventId: string;
  log: number;
  sequence: number;
  type: string;
  subject: string;
  state: DeliveryState;
  attempts: number;
  /** 0 without an answer. */
  httpStatus: number;
  problem: string;
  durationMs: number;
  attemptedAt: Date | null;
  /** Only of what waits. */
  nextAttemptAt: Date | null;
}

export interface DeliveryWithBody extends Delivery {
  /** Null if nothing waits. */
  body: string | null;
  /** When the log took the event. Only before its first attempt. */
  receivedAt?: Date;
}

/** Of an event that was not sent yet. */
export function newDelivery({ id, receivedAt, ...event }: StreamEvent, now: Date): DeliveryWithBody {
  return {
    ...event,
    ...{ eventId: id, receivedAt, state: "waiting", attempts: 0 },
    ...{ httpStatus: 0, problem: "", durationMs: 0, attemptedAt: null, nextAttemptAt: now },
  };
}

const columns = (sql: Sql | TransactionSql) => sql`
  event_id as "eventId", log, sequence::int8 as sequence, type, subject, state, attempts, http_status as "httpStatus", problem,
  duration_ms as "durationMs", attempted_at as "attemptedAt", next_attempt_at as "nextAttemptAt"
`;

/** What waits at an endpoint. */
export interface WaitingAt {
  endpointId: string;
  /** Undefined: of all types. */
  type?: string | undefined;
}

const isWaitingAt = (sql: Sql | TransactionSql, { endpointId, type }: WaitingAt) => sql`
  endpoint_id = ${endpointId} and state = 'waiting' ${type === undefined ? sql`` : sql`and type = ${type}`}
`;

/** In the order of the log. Nothing of a subject one of whose events is not due: it comes after that. */
export async function selectDue(sql: Sql, at: WaitingAt, limit: number): Promise<DeliveryWithBody[]> {
  const rows = await sql<DeliveryWithBody[]>`
    select ${columns(sql)}, body from deliveries
    where ${isWaitingAt(sql, at)} and (subject = '' and next_attempt_at <= now() or subject not in (
      select subject from deliveries where ${isWaitingAt(sql, at)} and next_attempt_at > now()))
    order by log, sequence limit ${limit}
  `;
  return rows.map(withNumbers);
}

export interface Waiting {
  count: number;
  /** When the first subject is due: all of it that waits. */
  firstDueAt: Date | null;
  subjects: ReadonlySet<string>;
}

export async function summarizeWaiting(sql: Sql | TransactionSql, at: WaitingAt): Promise<Waiting> {
  const [row] = await sql<{ count: number; firstDueAt: Date | null; subjects: string[] | null }[]>`
    select coalesce(sum(count), 0)::int as count, min(due_at) as "firstDueAt", array_agg(distinct subject) as subjects
    from (
      select subject, count(*) as count, max(next_attempt_at) as due_at
      from deliveries where ${isWaitingAt(sql, at)}
      group by subject, case when subject = '' then event_id end
    ) as of_subject
  `;
  return {
    count: row?.count ?? 0,
    firstDueAt: row?.firstDueAt ?? null,
    subjects: new Set(row?.subjects ?? []),
  };
}

/** @returns by endpoint, how many wait. Without those that have none. */
export async function countWaiting(sql: Sql, endpointIds: readonly string[]): Promise<Map<string, number>> {
  const rows = await sql<{ id: string; count: number }[]>`
    select endpoint_id as id, count(*)::int as count from deliveries
    where endpoint_id = any(${endpointIds as string[]}) and state = 'waiting' group by 1
  `;
  return new Map(rows.map(({ id, count }) => [id, count]));
}

/** An event that was sent before, and is sent again, has one row. */
export async function upsertDeliveries(
  tx: TransactionSql,
  endpointId: string,
  rows: readonly DeliveryWithBody[],
): Promise<void> {
  await tx`
    insert into deliveries (endpoint_id, event_id, log, sequence, type, subject, state, body, attempts, http_status, problem,
      duration_ms, attempted_at, next_attempt_at)
    select ${endpointId}, "eventId", log, sequence, type, subject, state, body, attempts, "httpStatus", problem,
      "durationMs", "attemptedAt", "nextAttemptAt"
    from jsonb_to_recordset(${tx.json(rows as never)}) as row ("eventId" uuid, log smallint, sequence bigint, type text,
      subject text, state text, body text, attempts integer, "httpStatus" smallint, problem text, "durationMs" integer,
      "attemptedAt" timestamptz, "nextAttemptAt" timestamptz)
    on conflict (endpoint_id, event_id) do update set state = excluded.state, body = excluded.body, attempts = excluded.attempts,
      http_status = excluded.http_status, problem = excluded.problem, duration_ms = excluded.duration_ms,
      attempted_at = excluded.attempted_at, next_attempt_at = excluded.next_attempt_at
  `;
}

/** In the order of the log, whether they are due or not. */
export async function selectWaiting(sql: Sql, at: WaitingAt, limit: number): Promise<DeliveryWithBody[]> {
  const rows = await sql<DeliveryWithBody[]>`
    select ${columns(sql)}, body from deliveries where ${isWaitingAt(sql, at)}
    order by log, sequence limit ${limit}
  `;
  return rows.map(withNumbers);
}

/** Of what waits: taken by its receiver, or refused for good. */
export async function settleWaiting(
  sql: Sql,
  endpointId: string,
  { eventIds, problem }: { eventIds: readonly string[]; problem: string },
): Promise<void> {
  await sql`
    update deliveries set state = ${problem === "" ? "delivered" : "given_up"}, body = null, next_attempt_at = null, problem = ${problem},
      attempts = attempts + 1, attempted_at = now()
    where endpoint_id = ${endpointId} and event_id = any(${eventIds as string[]}) and state = 'waiting'
  `;
}

export async function deleteWaiting(tx: TransactionSql, at: WaitingAt): Promise<void> {
  await tx`delete from deliveries where ${isWaitingAt(tx, at)}`;
}

/** Replaces what waits of its type, so that such events cannot pile up. */
export async function replaceWaiting(
  tx: TransactionSql,
  endpointId: string,
  event: StreamEvent,
): Promise<void> {
  await deleteWaiting(tx, { endpointId, type: event.type });
  await upsertDeliveries(tx, endpointId, [newDelivery(event, event.receivedAt)]);
}

/** The newest event first. @param before an event's id. */
export async function selectDeliveries(
  sql: Sql,
  endpointId: string,
  { before, limit }: { before: string | undefined; limit: number },
): Promise<Delivery[]> {
  const rows = await sql<Delivery[]>`
    select ${columns(sql)} from deliveries
    where endpoint_id = ${endpointId} ${before === undefined ? sql`` : sql`and event_id < ${before}`}
    order by event_id desc limit ${limit}
  `;
  return rows.map(withNumbers);
}

/** What waits stays. */
export async function deleteOldDeliveries(sql: Sql, endpointId: string, kept: number): Promise<void> {
  await sql`
    delete from deliveries where endpoint_id = ${endpointId} and state <> 'waiting' and event_id < (
      select event_id from deliveries where endpoint_id = ${endpointId} order by event_id desc offset ${kept - 1} limit 1)
  `;
}

/** The driver returns 64-bit integers as text. */
function withNumbers<D extends Delivery>(row: D): D {
  return { ...row, sequence: Number(row.sequence) };
}
