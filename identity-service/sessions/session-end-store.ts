import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";

/** Sessions of a user that have to end. */
export interface SessionEnd {
  /** UUID of the cause. */
  id: string;
  userId: string;
  /** The one that stays; null: all end. */
  exceptSessionId: string | null;
  /** As token-service keeps it: lower_snake_case, at most 32 characters. */
  reason: string;
  /** Of the cause. */
  createdAt: Date;
}

/**
 * Writes down that sessions must end, in the transaction of the cause, and makes a login that is under way fail. Until
 * `firstAttemptAt` the worker leaves it to whoever wrote it.
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
}

/** Takes ends that are due until `leaseEnd`, oldest first. */
export async function claimSessionEnds(
  sql: Sql,
  claim: { now: Date; leaseEnd: Date; limit: number },
): Promise<SessionEnd[]> {
  return sql<SessionEnd[]>`
    with due as materialized (
      select id from session_ends where next_attempt_at <= ${claim.now}
      order by next_attempt_at limit ${claim.limit} for update skip locked
    )
    update session_ends as ended set next_attempt_at = ${claim.leaseEnd}
    from due where ended.id = due.id
    returning ended.id, ended.user_id as "userId", ended.except_session_id as "exceptSessionId", ended.reason,
      ended.created_at as "createdAt"
  `;
}

/** Token-service has confirmed it. */
export async function deleteSessionEnd(sql: Sql, id: string): Promise<void> {
  await sql`delete from session_ends where id = ${id}`;
}

/** How many are not confirmed, counted to 10,000: it is asked for every second, also while token-service is away. */
export async function countSessionEnds(sql: Sql): Promise<number> {
  const [row] = await sql<
    { count: number }[]
  >`select count(*)::int as count from (select from session_ends limit 10000) as waiting`;
  return row?.count ?? 0;
}

/** Goes up with each end of sessions; undefined if the user is gone or disabled. */
export async function findSessionEpoch(
  sql: Sql | TransactionSql,
  userId: string,
): Promise<number | undefined> {
  const [row] = await sql<{ epoch: number }[]>`
    select session_epoch as epoch from users where id = ${userId} and status = 'active'
  `;
  return row?.epoch;
}
