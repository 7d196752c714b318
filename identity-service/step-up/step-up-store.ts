import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { AssuranceLevel } from "#token-client/assurance.ts";

interface NewStepUp {
  /** SHA-256 of the token. */
  tokenHash: Buffer;
  userId: string;
  sessionId: string;
  sessionEpoch: number;
  /** The level that is to be proven. */
  acr: AssuranceLevel;
  createdAt: Date;
  expiresAt: Date;
}

export interface OpenStepUp {
  tokenHash: Buffer;
  userId: string;
  sessionId: string;
  now: Date;
}

export async function insertStepUp(sql: Sql, stepUp: NewStepUp): Promise<void> {
  const { tokenHash, userId, sessionId, sessionEpoch, acr, createdAt, expiresAt } = stepUp;
  await sql`
    insert into step_ups (token_hash, user_id, session_id, session_epoch, acr, created_at, expires_at)
    values (${tokenHash}, ${userId}, ${sessionId}, ${sessionEpoch}, ${acr}, ${createdAt}, ${expiresAt})
  `;
}

/** Returns the level to prove. Undefined if the step-up has ended or has had `maxTries`. */
export async function countStepUpTry(
  tx: TransactionSql,
  which: OpenStepUp & { maxTries: number; reaches: AssuranceLevel },
): Promise<AssuranceLevel | undefined> {
  const [row] = await tx<{ acr: AssuranceLevel }[]>`
    update step_ups as step_up set attempts = attempts + 1
    from users
    where ${isOpen(tx, which)} and attempts < ${which.maxTries} and acr <= ${which.reaches}
    returning acr
  `;
  return row?.acr;
}

export async function giveStepUpTryBack(
  sql: Sql,
  { tokenHash }: Pick<OpenStepUp, "tokenHash">,
): Promise<void> {
  await sql`update step_ups set attempts = attempts - 1 where token_hash = ${tokenHash} and attempts > 0`;
}

/** Returns false if the step-up has ended. */
export async function consumeStepUp(tx: TransactionSql, which: OpenStepUp): Promise<boolean> {
  const result = await tx`
    update step_ups as step_up set consumed_at = ${which.now} from users where ${isOpen(tx, which)}
  `;
  return result.count === 1;
}

function isOpen(tx: TransactionSql, { tokenHash, userId, sessionId, now }: OpenStepUp) {
  return tx`
    token_hash = ${tokenHash} and step_up.user_id = ${userId} and session_id = ${sessionId}
    and consumed_at is null and expires_at > ${now} and users.id = step_up.user_id and users.status = 'active'
    and users.session_epoch = step_up.session_epoch
  `;
}

export async function deleteEndedStepUps(sql: Sql, endedBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from step_ups where token_hash = any(array(
      select token_hash from step_ups where expires_at < ${endedBefore}
      order by expires_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}
