import { type Claim, claimDue } from "#kit/database/outbox-store.ts";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";

export type SecurityEventType =
  | "refresh_reuse"
  | "signing_key_rotated"
  | "signing_key_revoked"
  | "session_revoked"
  | "session_ended"
  | "session_raised"
  | "all_sessions_revoked"
  | "device_bound"
  | "device_refused";

export interface SecurityEvent {
  /** UUIDv7. */
  id: string;
  type: SecurityEventType;
  userId: string | null;
  sessionId: string | null;
  keyId: string | null;
  /** `operator:ada`. Absent for the service itself. */
  person?: string | null | undefined;
  /** Free text. May be empty. */
  reason: string;
  ip: string;
  userAgent: string;
  requestId: string;
  traceId: string;
  occurredAt: Date;
}

export interface Deliveries {
  isRecorded: boolean;
  isNotified: boolean;
}

export interface DueEvent extends SecurityEvent, Deliveries {}

/** Commits with its cause. */
export async function insertSecurityEvent(tx: TransactionSql, event: SecurityEvent): Promise<void> {
  const notifiedAt = event.type === "refresh_reuse" ? null : event.occurredAt;
  await tx`
    insert into security_events
      (id, type, user_id, session_id, key_id, person, reason, ip, user_agent, request_id, trace_id, occurred_at, next_attempt_at,
       notified_at)
    values
      (${event.id}, ${event.type}, ${event.userId}, ${event.sessionId}, ${event.keyId}, ${event.person ?? null}, ${event.reason}, ${event.ip},
       ${event.userAgent}, ${event.requestId}, ${event.traceId}, ${event.occurredAt}, now(), ${notifiedAt})
  `;
}

/** Who asked for it, in which call. */
export type EventCause = Pick<SecurityEvent, "person" | "requestId" | "traceId">;

type CausedEvent = EventCause &
  Pick<SecurityEvent, "type" | "reason" | "occurredAt"> &
  Partial<Pick<SecurityEvent, "userId" | "sessionId" | "keyId">>;

/** Of an operator or the service itself: without the address of a client. */
export async function insertCausedEvent(tx: TransactionSql, event: CausedEvent): Promise<void> {
  const about = { userId: null, sessionId: null, keyId: null, ...event };
  await insertSecurityEvent(tx, { id: uuidv7(), ip: "", userAgent: "", ...about });
}

/** One for each. */
export async function insertEndedSessions(
  tx: TransactionSql,
  {
    userId,
    sessionIds,
    reason,
    at,
  }: { userId: string; sessionIds: readonly string[]; reason: string; at: Date },
): Promise<void> {
  const ids = sessionIds.map(() => uuidv7());
  await tx`
    insert into security_events (id, type, user_id, session_id, reason, occurred_at, next_attempt_at, notified_at)
    select id, 'session_ended', ${userId}, session_id, ${reason}, ${at}, now(), ${at}
    from unnest(${ids}::uuid[], ${sessionIds as string[]}::uuid[]) as ended (id, session_id)
  `;
}

export function claimDueEvents(sql: Sql, lease: Omit<Claim, "now">): Promise<DueEvent[]> {
  const table = {
    name: "security_events",
    waiting: sql`recorded_at is null or notified_at is null`,
    columns: sql`
      claimed.id, type, user_id as "userId", session_id as "sessionId", key_id as "keyId", person, reason, ip,
      user_agent as "userAgent", request_id as "requestId", trace_id as "traceId", occurred_at as "occurredAt",
      recorded_at is not null as "isRecorded", notified_at is not null as "isNotified"
    `,
    countsAttempts: true,
  };
  return claimDue<DueEvent>(sql, table, lease);
}

export async function oldestUndelivered(sql: Sql): Promise<Date | undefined> {
  const [row] = await sql<{ at: Date | null }[]>`
    select min(occurred_at) as at from security_events where recorded_at is null or notified_at is null
  `;
  return row?.at ?? undefined;
}

/** Keeps what another process has noted. */
export async function markEventDelivered(
  sql: Sql,
  id: string,
  { isRecorded, isNotified }: Deliveries,
): Promise<void> {
  await sql`
    update security_events set
      recorded_at = coalesce(recorded_at, case when ${isRecorded}::boolean then clock.at end),
      notified_at = coalesce(notified_at, case when ${isNotified}::boolean then clock.at end)
    from (select now() as at) as clock
    where id = ${id}
  `;
}

/** As ended sessions. */
const KEEP_DELIVERED = "1 day";

export async function deleteDeliveredEvents(sql: Sql, limit: number): Promise<number> {
  const result = await sql`
    delete from security_events where id = any(array(
      select id from security_events
      where recorded_at < now() - ${KEEP_DELIVERED}::interval and notified_at < now() - ${KEEP_DELIVERED}::interval
      order by recorded_at limit ${limit}
      for update skip locked
    ))
  `;
  return result.count;
}
