import { type Claim, claimDue } from "#kit/database/outbox-store.ts";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export interface SessionEnd {
  id: string;
  userId: string;
  /** Null ends all. */
  exceptSessionId: string | null;
  /** In lower_snake_case, at most 32 characters. */
  reason: string;
  createdAt: Date;
}

/**
 * Raises the session epoch, so that logins in progress fail, and takes away what the sessions have begun and could still
 * finish while token-service is away: approvals, changes of the address, and the set-up of TOTP. A set-up belongs to no
 * session, so it also ends in the one that is kept: whoever began it may have been in another.
 */
export async function insertSessionEnd(
  tx: TransactionSql,
  end: SessionEnd,
  firstAttemptAt: Date,
): Promise<void> {
  await tx`
    insert into session_ends (id, user_id, except_session_id, reason, created_at, next_attempt_at)
    values (${end.id}, ${end.userId}, ${end.exceptSessionId}, ${end.reason}, ${end.createdAt}, ${firstAttemptAt})
  `;
  await tx`update users set session_epoch = session_epoch + 1 where id = ${end.userId}`;
  // After the lock of the account, under which approvals are asked for. A use takes none: this looks again after a wait.
  await tx`
    delete from approvals
    where user_id = ${end.userId} and used_at is null and refused_at is null
      and session_id is distinct from ${end.exceptSessionId}
  `;
  await tx`delete from totp_credentials where user_id = ${end.userId} and confirmed_at is null`;
  // One that an administrator began has no session.
  await tx`
    update links set consumed_at = ${end.createdAt}
    where user_id = ${end.userId} and purpose = 'confirm_email_change' and consumed_at is null
      and session_id is not null and session_id is distinct from ${end.exceptSessionId}
  `;
}

export function claimSessionEnds(sql: Sql, claim: Claim): Promise<SessionEnd[]> {
  const table = {
    name: "session_ends",
    waiting: sql`true`,
    columns: sql`
      claimed.id, user_id as "userId", except_session_id as "exceptSessionId", reason, created_at as "createdAt"
    `,
  };
  return claimDue<SessionEnd>(sql, table, claim);
}

export async function deleteSessionEnd(sql: Sql, id: string): Promise<void> {
  await sql`delete from session_ends where id = ${id}`;
}

/** Stops at 10,000, because it runs every second. */
export async function countSessionEnds(sql: Sql): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from (select from session_ends limit 10000) as waiting`;
  return row?.count ?? 0;
}

/** Returns false if sessions ended since `epoch`, and for a deleted or disabled user. */
export async function noteLogin(
  sql: Sql,
  { userId, epoch, at }: { userId: string; epoch: number; at: Date },
): Promise<boolean> {
  const result = await sql`
    update users set last_login_at = greatest(last_login_at, ${at})
    where id = ${userId} and status = 'active' and session_epoch = ${epoch}
  `;
  return result.count === 1;
}

/** Undefined for a deleted or disabled user. */
export async function findSessionEpoch(
  sql: Sql | TransactionSql,
  userId: string,
): Promise<number | undefined> {
  const [row] = await sql<{ epoch: number }[]>`
    select session_epoch as epoch from users where id = ${userId} and status = 'active'
  `;
  return row?.epoch;
}
