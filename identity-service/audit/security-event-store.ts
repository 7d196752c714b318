import { type Claim, claimDue } from "#kit/database/outbox-store.ts";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { ClientOrigin } from "./client-origin.ts";

export type SecurityEventType =
  | "user_registered"
  | "imported"
  | "import_started"
  | "import_completed"
  | "admin_bootstrapped"
  | "email_verified"
  | "profile_updated"
  | "login_failed"
  | "password_changed"
  | "password_reset"
  | "password_change_required"
  | "role_changed"
  | "status_changed"
  | "email_changed"
  | "email_change_undone"
  | "access_change_undone"
  | "mfa_enabled"
  | "mfa_disabled"
  | "mfa_reset"
  | "recovery_codes_renewed"
  | "recovery_code_used"
  | "device_trusted"
  | "trusted_device_used"
  | "trusted_device_removed"
  | "passkey_added"
  | "passkey_removed"
  | "passkey_refused"
  | "approval_asked"
  | "approval_given"
  | "approval_used"
  | "approval_refused"
  | "stepped_up"
  | "step_up_failed"
  | "identity_linked"
  | "identity_unlinked"
  | "session_ended"
  | "sessions_ended"
  | "unlocked"
  | "invited"
  | "link_mailed"
  | "test_login_asked"
  | "account_claimed"
  | "account_deleted"
  | "former_address_erased"
  | ClientEventType;

/** Of a machine client, whose id is then in `userId`. */
type ClientEventType =
  | "client_created"
  | "client_changed"
  | "client_deleted"
  | "client_credential_added"
  | "client_credential_revoked";

export interface SecurityEvent extends ClientOrigin {
  id: string;
  type: SecurityEventType;
  userId: string;
  /** Null for an operator or an unproven caller. */
  actorId: string | null;
  /** Such as `operator:ada`. */
  person: string | null;
  actorRole: string | null;
  sessionId: string | null;
  reason: string;
  /** Null on success. */
  errorCode: string | null;
  requestId: string;
  traceId: string;
  occurredAt: Date;
  /** For the audit log to erase. */
  erasedEmail: string | null;
}

export async function insertSecurityEvents(
  tx: TransactionSql,
  events: readonly SecurityEvent[],
): Promise<void> {
  const rows = events.map((event) => ({
    id: event.id,
    type: event.type,
    user_id: event.userId,
    actor_id: event.actorId,
    person: event.person,
    actor_role: event.actorRole,
    session_id: event.sessionId,
    reason: event.reason,
    error_code: event.errorCode,
    ip: event.clientIp,
    user_agent: event.userAgent,
    request_id: event.requestId,
    trace_id: event.traceId,
    occurred_at: event.occurredAt,
    next_attempt_at: event.occurredAt,
    erased_email: event.erasedEmail,
  }));
  await tx`insert into security_events ${tx(rows)}`;
  const last = events.at(-1);
  if (last !== undefined) tx.markCommit?.({ id: last.id, at: last.occurredAt });
}

export function claimDueEvents(sql: Sql, claim: Claim): Promise<SecurityEvent[]> {
  const table = {
    name: "security_events",
    waiting: sql`recorded_at is null`,
    columns: sql`
      claimed.id, type, user_id as "userId", actor_id as "actorId", person, actor_role as "actorRole",
      session_id as "sessionId", reason, error_code as "errorCode", ip as "clientIp", user_agent as "userAgent",
      request_id as "requestId", trace_id as "traceId", occurred_at as "occurredAt", erased_email as "erasedEmail"
    `,
  };
  return claimDue<SecurityEvent>(sql, table, claim);
}

export async function markEventsRecorded(sql: Sql, ids: readonly string[], now: Date): Promise<void> {
  await sql`update security_events set recorded_at = ${now}, erased_email = null where id = any(${[...ids]}::uuid[])`;
}

export async function selectEventIds(sql: Sql, ids: readonly string[]): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from security_events where id = any(${[...ids]}::uuid[])
  `;
  return rows.map(({ id }) => id);
}

/** Ids are in the order of time. */
export async function findEventBefore(sql: Sql, id: string): Promise<{ occurredAt: Date } | undefined> {
  const [row] = await sql<{ occurredAt: Date }[]>`
    select occurred_at as "occurredAt" from security_events where id < ${id} order by id desc limit 1
  `;
  return row;
}

/** Stops at 10,000, because it runs every second. */
export async function selectWaitingEvents(sql: Sql): Promise<{ count: number; oldest: Date | undefined }> {
  const [row] = await sql<{ count: number; oldest: Date | null }[]>`
    select (
        select count(*)::int from (select from security_events where recorded_at is null limit 10000) as waiting
      ) as count,
      (select min(occurred_at) from security_events where recorded_at is null) as oldest
  `;
  return { count: row?.count ?? 0, oldest: row?.oldest ?? undefined };
}

export async function deleteRecordedEvents(sql: Sql, moment: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from security_events where id = any(array(
      select id from security_events where recorded_at < ${moment}
      order by recorded_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}
