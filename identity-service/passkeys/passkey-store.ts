import type { Sql, TransactionSql } from "#kit/database/postgres.ts";

export interface Passkey {
  id: string;
  userId: string;
  /** 16 to 1,023 bytes. */
  credentialId: Buffer;
  /** COSE_Key (RFC 9052 §7). */
  publicKey: Buffer;
  transports: readonly string[];
  isBackupEligible: boolean;
  isBackedUp: boolean;
  name: string;
  createdAt: Date;
  lastUsedAt: Date | null;
}

export interface NewPasskey extends Omit<Passkey, "lastUsedAt"> {
  /** Unsigned, 32 bits. */
  signCount: number;
}

const columns = (sql: Sql | TransactionSql) => sql`
  id, user_id as "userId", credential_id as "credentialId", public_key as "publicKey", transports,
  is_backup_eligible as "isBackupEligible", is_backed_up as "isBackedUp", name, created_at as "createdAt",
  last_used_at as "lastUsedAt"
`;

/** Requires the account lock. Returns false if somebody has this credential. */
export async function insertPasskey(tx: TransactionSql, passkey: NewPasskey): Promise<boolean> {
  const { id, userId, credentialId, publicKey, signCount, transports, isBackupEligible, isBackedUp } =
    passkey;
  const result = await tx`
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible,
      is_backed_up, name, created_at)
    values (${id}, ${userId}, ${credentialId}, ${publicKey}, ${signCount}, ${[...transports]}, ${isBackupEligible},
      ${isBackedUp}, ${passkey.name}, ${passkey.createdAt})
    on conflict do nothing
  `;
  return result.count === 1;
}

/** Oldest first. */
export async function listPasskeys(sql: Sql | TransactionSql, userId: string): Promise<Passkey[]> {
  return sql<
    Passkey[]
  >`select ${columns(sql)} from passkeys where user_id = ${userId} order by created_at, id`;
}

export async function findPasskey(tx: TransactionSql, credentialId: Buffer): Promise<Passkey | undefined> {
  const [row] = await tx<Passkey[]>`
    select ${columns(tx)} from passkeys where credential_id = ${credentialId}
  `;
  return row;
}

/** Returns false if the counter did not grow (WebAuthn Level 3 §7.2 step 22). Zero: the authenticator has none. */
export async function notePasskeyUse(
  tx: TransactionSql,
  use: { id: string; signCount: number; isBackedUp: boolean; at: Date },
): Promise<boolean> {
  const result = await tx`
    update passkeys set sign_count = ${use.signCount}, is_backed_up = ${use.isBackedUp}, last_used_at = ${use.at}
    where id = ${use.id} and (sign_count < ${use.signCount} or (sign_count = 0 and ${use.signCount} = 0))
  `;
  return result.count === 1;
}

export async function setPasskeyName(
  sql: Sql,
  { userId, id, name }: Pick<Passkey, "userId" | "id" | "name">,
): Promise<Passkey | undefined> {
  const [row] = await sql<Passkey[]>`
    update passkeys set name = ${name} where id = ${id} and user_id = ${userId} returning ${columns(sql)}
  `;
  return row;
}

/** Requires the account lock. */
export async function deletePasskey(
  tx: TransactionSql,
  { userId, id }: Pick<Passkey, "userId" | "id">,
): Promise<void> {
  await tx`delete from passkeys where id = ${id} and user_id = ${userId}`;
}

/** Requires the account lock. Returns how many there were. */
export async function deletePasskeysSince(tx: TransactionSql, userId: string, since: Date): Promise<number> {
  const result = await tx`delete from passkeys where user_id = ${userId} and created_at >= ${since}`;
  return result.count;
}
