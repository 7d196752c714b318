import { type Claim, claimDue } from "../../service-kit/outbox-store.ts";
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

/** Takes ends that are due. */
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
