import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";

/** Arbitrary; the same in every version. */
const REENCRYPTION_LOCK = 7_031_102;

export interface EncryptedSecret {
  secretEncrypted: Buffer;
  keyId: string;
}

export interface TotpCredential extends EncryptedSecret {
  createdAt: Date;
  /** Null until confirmed. */
  confirmedAt: Date | null;
}

/** As in `amr`. */
export type FirstFactor = "pwd" | "fed";

export interface MfaChallenge extends ClientOrigin {
  /** SHA-256 of the tempToken. */
  tokenHash: Buffer;
  userId: string;
  firstFactor: FirstFactor;
  sessionEpoch: number;
  createdAt: Date;
  expiresAt: Date;
}

/** Returns false if a confirmed secret exists. */
export async function replaceUnconfirmedSecret(
  sql: Sql | TransactionSql,
  secret: EncryptedSecret & { userId: string; createdAt: Date },
): Promise<boolean> {
  const result = await sql`
    insert into totp_credentials (user_id, secret_encrypted, key_id, created_at)
    values (${secret.userId}, ${secret.secretEncrypted}, ${secret.keyId}, ${secret.createdAt})
    on conflict (user_id) do update
    set secret_encrypted = excluded.secret_encrypted, key_id = excluded.key_id, created_at = excluded.created_at,
      last_step = 0
    where totp_credentials.confirmed_at is null
  `;
  return result.count === 1;
}

export async function findTotpCredential(
  tx: TransactionSql,
  userId: string,
): Promise<TotpCredential | undefined> {
  const [row] = await tx<TotpCredential[]>`
    select secret_encrypted as "secretEncrypted", key_id as "keyId", created_at as "createdAt",
      confirmed_at as "confirmedAt"
    from totp_credentials where user_id = ${userId}
  `;
  return row;
}

/** Undefined without a confirmed one. */
export async function findTotpSince(sql: Sql, userId: string): Promise<Date | undefined> {
  const [row] = await sql<{ confirmedAt: Date }[]>`
    select confirmed_at as "confirmedAt" from totp_credentials where user_id = ${userId} and confirmed_at is not null
  `;
  return row?.confirmedAt;
}

export async function confirmTotpCredential(tx: TransactionSql, userId: string, at: Date): Promise<void> {
  // Another replica's clock may have been ahead when it was made.
  await tx`
    update totp_credentials set confirmed_at = greatest(created_at, ${at})
    where user_id = ${userId} and confirmed_at is null
  `;
}

/** Of new users. */
export async function insertConfirmedSecrets(
  tx: TransactionSql,
  secrets: readonly (EncryptedSecret & { userId: string })[],
  at: Date,
): Promise<void> {
  if (secrets.length === 0) return;
  const rows = secrets.map(({ userId, secretEncrypted, keyId }) => ({
    user_id: userId,
    secret_encrypted: secretEncrypted,
    key_id: keyId,
    created_at: at,
    confirmed_at: at,
  }));
  await tx`insert into totp_credentials ${tx(rows)}`;
}

/** RFC 6238 §5.2. Returns false if this or a later step was used. */
export async function consumeTotpStep(tx: TransactionSql, userId: string, step: number): Promise<boolean> {
  const result = await tx`
    update totp_credentials set last_step = ${step} where user_id = ${userId} and last_step < ${step}
  `;
  return result.count === 1;
}

const LOWEST_ID = "00000000-0000-0000-0000-000000000000";

/**
 * Sorted by user id. Null: the first page. The order of both columns is that of one index: statistics from before a
 * re-encryption would suggest to look for the last secrets of a key among all.
 */
export async function lockSecretsOfKey(
  tx: TransactionSql,
  keyId: string,
  page: { afterUserId: string | null; limit: number },
): Promise<(EncryptedSecret & { userId: string })[]> {
  return tx<(EncryptedSecret & { userId: string })[]>`
    select user_id as "userId", secret_encrypted as "secretEncrypted", key_id as "keyId"
    from totp_credentials
    where (key_id, user_id) > (${keyId}, ${page.afterUserId ?? LOWEST_ID}) and key_id <= ${keyId}
    order by key_id, user_id limit ${page.limit} for update
  `;
}

/** Requires the locks of `lockSecretsOfKey`. */
export async function replaceEncryptions(
  tx: TransactionSql,
  secrets: readonly (EncryptedSecret & { userId: string })[],
): Promise<void> {
  if (secrets.length === 0) return;
  const rows = secrets.map(({ userId, secretEncrypted, keyId }) => [userId, secretEncrypted, keyId]);
  await tx`
    update totp_credentials as credential
    set secret_encrypted = renewed.secret_encrypted::bytea, key_id = renewed.key_id
    from (values ${tx(rows as never)}) as renewed (user_id, secret_encrypted, key_id)
    where credential.user_id = renewed.user_id::uuid
  `;
}

/** Returns false while another replica re-encrypts. */
export async function lockReencryption(tx: TransactionSql): Promise<boolean> {
  const [row] = await tx<{ isLocked: boolean }[]>`
    select pg_try_advisory_xact_lock(${REENCRYPTION_LOCK}) as "isLocked"
  `;
  return row?.isLocked === true;
}

/** Ordered for the index, as above. */
export async function countSecretsOfKeys(
  sql: Sql,
  keyIds: readonly string[],
  atMost: number,
): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count
    from (select from totp_credentials where key_id = any(${[...keyIds]}) order by key_id limit ${atMost}) as found
  `;
  return row?.count ?? 0;
}

/** SHA-256. */
export async function replaceRecoveryCodes(
  tx: TransactionSql,
  userId: string,
  hashes: readonly Buffer[],
  at: Date,
): Promise<void> {
  await tx`delete from recovery_codes where user_id = ${userId}`;
  const rows = hashes.map((hash) => ({ user_id: userId, code_hash: hash, created_at: at }));
  await tx`insert into recovery_codes ${tx(rows)}`;
}

export async function deleteRecoveryCodesSince(
  tx: TransactionSql,
  userId: string,
  since: Date,
): Promise<void> {
  await tx`delete from recovery_codes where user_id = ${userId} and created_at >= ${since}`;
}

/** Recovery codes go with the last second factor. Call after each removal of one, under the account lock. */
export async function deleteIdleRecoveryCodes(tx: TransactionSql, userId: string): Promise<void> {
  await tx`
    delete from recovery_codes where user_id = ${userId}
      and not exists (select from totp_credentials where user_id = ${userId} and confirmed_at is not null)
      and not exists (select from passkeys where user_id = ${userId})
  `;
}

export async function consumeRecoveryCode(
  tx: TransactionSql,
  userId: string,
  hash: Buffer,
): Promise<boolean> {
  const result = await tx`delete from recovery_codes where user_id = ${userId} and code_hash = ${hash}`;
  return result.count === 1;
}

export async function countRecoveryCodes(sql: Sql | TransactionSql, userId: string): Promise<number> {
  const [row] = await sql<{ count: number }[]>`
    select count(*)::int as count from recovery_codes where user_id = ${userId}
  `;
  return row?.count ?? 0;
}

/** Removes challenges and failure counts too. Returns whether it was confirmed. */
export async function deleteTotp(tx: TransactionSql, userId: string): Promise<boolean> {
  const removed = await tx<{ wasOn: boolean }[]>`
    delete from totp_credentials where user_id = ${userId} returning confirmed_at is not null as "wasOn"
  `;
  await tx`delete from mfa_challenges where user_id = ${userId}`;
  await tx`delete from mfa_failures where user_id = ${userId}`;
  await tx`delete from mfa_guessing where user_id = ${userId}`;
  return removed[0]?.wasOn === true;
}

export async function insertMfaChallenge(sql: Sql, challenge: MfaChallenge): Promise<void> {
  const { tokenHash, userId, firstFactor, sessionEpoch, createdAt, expiresAt, clientIp, userAgent } =
    challenge;
  await sql`
    insert into mfa_challenges (token_hash, user_id, first_factor, session_epoch, created_at, expires_at, ip, user_agent)
    values (${tokenHash}, ${userId}, ${firstFactor}, ${sessionEpoch}, ${createdAt}, ${expiresAt}, ${clientIp}, ${userAgent})
  `;
}

/** Also finds ended challenges. */
export async function findChallenge(
  tx: TransactionSql,
  tokenHash: Buffer,
): Promise<{ userId: string; firstFactor: FirstFactor } | undefined> {
  const [row] = await tx<{ userId: string; firstFactor: FirstFactor }[]>`
    select user_id as "userId", first_factor as "firstFactor" from mfa_challenges where token_hash = ${tokenHash}
  `;
  return row;
}

/** Returns false if the challenge has ended or has had `maxTries`. */
export async function countChallengeTry(
  tx: TransactionSql,
  which: { tokenHash: Buffer; sessionEpoch: number; now: Date; maxTries: number },
): Promise<boolean> {
  const result = await tx`
    update mfa_challenges set attempts = attempts + 1
    where token_hash = ${which.tokenHash} and session_epoch = ${which.sessionEpoch}
      and expires_at > ${which.now} and attempts < ${which.maxTries}
  `;
  return result.count === 1;
}

/** Requires the lock of `countChallengeTry`. */
export async function consumeChallenge(tx: TransactionSql, tokenHash: Buffer): Promise<void> {
  await tx`delete from mfa_challenges where token_hash = ${tokenHash}`;
}

export async function deleteEndedChallenges(sql: Sql, endedBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from mfa_challenges where token_hash = any(array(
      select token_hash from mfa_challenges where expires_at < ${endedBefore}
      order by expires_at limit ${limit} for update skip locked
    ))
  `;
  return result.count;
}
