import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

/** What a login still asks for: an enrollment or a new password. */
export interface NewLoginStep {
  /** SHA-256 of the tempToken. */
  tokenHash: Buffer;
  userId: string;
  sessionEpoch: number;
  amr: readonly string[];
  createdAt: Date;
  expiresAt: Date;
}

export async function insertEnrollment(sql: Sql, enrollment: NewLoginStep): Promise<void> {
  const { tokenHash, userId, sessionEpoch, amr, createdAt, expiresAt } = enrollment;
  await sql`
    insert into mfa_enrollment_challenges (token_hash, user_id, session_epoch, amr, created_at, expires_at)
    values (${tokenHash}, ${userId}, ${sessionEpoch}, ${[...amr]}, ${createdAt}, ${expiresAt})
  `;
}

/** Also finds ended ones. */
export async function findEnrollment(
  tx: TransactionSql,
  tokenHash: Buffer,
): Promise<Pick<NewLoginStep, "userId" | "amr"> | undefined> {
  const [row] = await tx<Pick<NewLoginStep, "userId" | "amr">[]>`
    select user_id as "userId", amr from mfa_enrollment_challenges where token_hash = ${tokenHash}
  `;
  return row;
}

/** Returns false if the enrollment has ended or has had `maxTries`. */
export async function countEnrollmentTry(
  tx: TransactionSql,
  which: { tokenHash: Buffer; sessionEpoch: number; now: Date; maxTries: number },
): Promise<boolean> {
  const result = await tx`
    update mfa_enrollment_challenges set attempts = attempts + 1
    where token_hash = ${which.tokenHash} and session_epoch = ${which.sessionEpoch}
      and consumed_at is null and expires_at > ${which.now} and attempts < ${which.maxTries}
  `;
  return result.count === 1;
}

/** Requires the lock of `countEnrollmentTry`. */
export async function consumeEnrollment(tx: TransactionSql, tokenHash: Buffer, now: Date): Promise<void> {
  await tx`update mfa_enrollment_challenges set consumed_at = ${now} where token_hash = ${tokenHash}`;
}

export async function deleteEndedEnrollments(sql: Sql, endedBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from mfa_enrollment_challenges where token_hash = any(array(
      select token_hash from mfa_enrollment_challenges where expires_at < ${endedBefore}
      order by expires_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}
