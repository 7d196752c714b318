import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { Account } from "../users/account.ts";
import type { NewLoginStep } from "./enrollment-store.ts";

export interface OpenPasswordChange extends Pick<Account, "email" | "passwordHash"> {
  userId: string;
  amr: readonly string[];
  createdAt: Date;
}

export async function insertPasswordChange(
  sql: Sql | TransactionSql,
  challenge: NewLoginStep,
): Promise<void> {
  const { tokenHash, userId, sessionEpoch, amr, createdAt, expiresAt } = challenge;
  await sql`
    insert into password_change_challenges (token_hash, user_id, session_epoch, amr, created_at, expires_at)
    values (${tokenHash}, ${userId}, ${sessionEpoch}, ${[...amr]}, ${createdAt}, ${expiresAt})
  `;
}

/** `consumePasswordChange` decides finally. */
export async function findOpenPasswordChange(
  sql: Sql,
  which: { tokenHash: Buffer; now: Date; maxTries: number },
): Promise<OpenPasswordChange | undefined> {
  const [row] = await sql<OpenPasswordChange[]>`
    select users.id as "userId", users.email, users.password_hash as "passwordHash", challenge.amr,
      challenge.created_at as "createdAt"
    from password_change_challenges as challenge join users on users.id = challenge.user_id
    where challenge.token_hash = ${which.tokenHash} and challenge.consumed_at is null
      and challenge.expires_at > ${which.now} and challenge.attempts < ${which.maxTries}
      and users.status = 'active' and users.must_change_password
      and users.session_epoch = challenge.session_epoch
  `;
  return row;
}

/** Returns false if the challenge has ended or has had `maxTries`. */
export async function countPasswordChangeTry(
  sql: Sql,
  which: { tokenHash: Buffer; now: Date; maxTries: number },
): Promise<boolean> {
  const result = await sql`
    update password_change_challenges set attempts = attempts + 1
    where token_hash = ${which.tokenHash} and consumed_at is null and expires_at > ${which.now}
      and attempts < ${which.maxTries}
  `;
  return result.count === 1;
}

export async function givePasswordChangeTryBack(
  sql: Sql,
  { tokenHash }: Pick<NewLoginStep, "tokenHash">,
): Promise<void> {
  await sql`
    update password_change_challenges set attempts = attempts - 1 where token_hash = ${tokenHash} and attempts > 0
  `;
}

/** Requires the account lock. Returns false if the challenge has ended. */
export async function consumePasswordChange(
  tx: TransactionSql,
  which: { tokenHash: Buffer; now: Date },
): Promise<boolean> {
  const result = await tx`
    update password_change_challenges as challenge set consumed_at = ${which.now}
    from users
    where challenge.token_hash = ${which.tokenHash} and challenge.consumed_at is null
      and challenge.expires_at > ${which.now} and users.id = challenge.user_id and users.status = 'active'
      and users.must_change_password and users.session_epoch = challenge.session_epoch
  `;
  return result.count === 1;
}

export async function deletePasswordChangesOfUser(tx: TransactionSql, userId: string): Promise<void> {
  await tx`delete from password_change_challenges where user_id = ${userId}`;
}

export async function deleteEndedPasswordChanges(
  sql: Sql,
  endedBefore: Date,
  limit: number,
): Promise<number> {
  const result = await sql`
    delete from password_change_challenges where token_hash = any(array(
      select token_hash from password_change_challenges where expires_at < ${endedBefore}
      order by expires_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}
