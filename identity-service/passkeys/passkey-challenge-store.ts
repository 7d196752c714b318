import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export type PasskeyPurpose = "registration" | "login" | "second_factor" | "step_up" | "approval";

/** What an answer must come with. */
export interface ChallengeBinding {
  purpose: PasskeyPurpose;
  /** SHA-256 of the session's id or of the token that the client shows with the answer. */
  boundTo: Buffer;
  /** Null for a login, which may be anybody's. */
  user: { id: string; sessionEpoch: number } | null;
}

export interface NewChallenge extends ChallengeBinding {
  /** SHA-256. */
  challengeHash: Buffer;
  createdAt: Date;
  expiresAt: Date;
}

/** Of one purpose, so that none pushes out what proved more. */
const MAX_OPEN_OF_USER = 20;

/**
 * Replaces an earlier one of the same binding, and the user's oldest beyond 20 of its purpose. Those of logins are bounded
 * by the budgets of logins: who has only the password must not push out the owner's.
 */
export async function insertPasskeyChallenge(
  sql: Sql | TransactionSql,
  challenge: NewChallenge,
): Promise<void> {
  const { challengeHash, purpose, boundTo, user, createdAt, expiresAt } = challenge;
  if (user !== null && purpose !== "second_factor") await deleteOldest(sql, user.id, purpose);
  await sql`
    insert into passkey_challenges (challenge_hash, purpose, bound_to, user_id, session_epoch, created_at, expires_at)
    values (${challengeHash}, ${purpose}, ${boundTo}, ${user?.id ?? null}, ${user?.sessionEpoch ?? null}, ${createdAt},
      ${expiresAt})
    on conflict (purpose, bound_to) do update
    set challenge_hash = excluded.challenge_hash, user_id = excluded.user_id, session_epoch = excluded.session_epoch,
      created_at = excluded.created_at, expires_at = excluded.expires_at
  `;
}

async function deleteOldest(
  sql: Sql | TransactionSql,
  userId: string,
  purpose: PasskeyPurpose,
): Promise<void> {
  await sql`
    delete from passkey_challenges where challenge_hash in (
      select challenge_hash from passkey_challenges where user_id = ${userId} and purpose = ${purpose}
      order by created_at desc, challenge_hash offset ${MAX_OPEN_OF_USER - 1}
    )
  `;
}

type OpenChallenge = ChallengeBinding & { challengeHash: Buffer; now: Date };

const isOpen = (
  sql: Sql | TransactionSql,
  { challengeHash, purpose, boundTo, user, now }: OpenChallenge,
) => sql`
  challenge_hash = ${challengeHash} and purpose = ${purpose} and bound_to = ${boundTo}
  and user_id is not distinct from ${user?.id ?? null}::uuid
  and session_epoch is not distinct from ${user?.sessionEpoch ?? null}::integer
  and expires_at > ${now}
`;

export async function hasPasskeyChallenge(
  sql: Sql | TransactionSql,
  challenge: OpenChallenge,
): Promise<boolean> {
  const found = await sql`select 1 from passkey_challenges where ${isOpen(sql, challenge)}`;
  return found.length === 1;
}

/** Uses the challenge up. Returns false if there is none of this binding. */
export async function takePasskeyChallenge(tx: TransactionSql, challenge: OpenChallenge): Promise<boolean> {
  const result = await tx`delete from passkey_challenges where ${isOpen(tx, challenge)}`;
  return result.count === 1;
}

export async function deleteExpiredChallenges(sql: Sql, now: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from passkey_challenges where challenge_hash = any(array(
      select challenge_hash from passkey_challenges where expires_at <= ${now}
      order by expires_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}
