import type { JWK } from "jose";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { Algorithm } from "#token-client/compact-jws.ts";
import type { KeyState } from "./signing-key.ts";

export interface SigningKeyRow {
  id: string;
  algorithm: Algorithm;
  state: KeyState;
  publicJwk: JWK;
  privateEncrypted: Buffer | null;
  encryptionKeyId: string;
  refreshSecretEncrypted: Buffer;
  refreshSecretKeyId: string;
  createdAt: Date;
  activatedAt: Date | null;
  retiredAt: Date | null;
  /** Measured by the database's clock. */
  publishedForS: number;
  /** Measured by the database's clock. */
  activeForS: number | null;
}

/** The same in every version. */
const KEYS_LOCK = 7_031_002;

export async function lockKeys(tx: TransactionSql): Promise<void> {
  await tx`select pg_advisory_xact_lock(${KEYS_LOCK})`;
}

/** Newest first. */
export async function listKeys(sql: Sql | TransactionSql): Promise<SigningKeyRow[]> {
  return sql<SigningKeyRow[]>`
    select id, algorithm, state, public_jwk as "publicJwk", private_encrypted as "privateEncrypted",
           encryption_key_id as "encryptionKeyId", refresh_secret_encrypted as "refreshSecretEncrypted",
           refresh_secret_key_id as "refreshSecretKeyId", created_at as "createdAt", activated_at as "activatedAt",
           retired_at as "retiredAt",
           extract(epoch from clock_timestamp() - created_at)::float8 as "publishedForS",
           extract(epoch from clock_timestamp() - activated_at)::float8 as "activeForS"
    from signing_keys
    order by created_at desc, id
  `;
}

export async function insertKey(
  tx: TransactionSql,
  key: Pick<SigningKeyRow, "id" | "algorithm" | "publicJwk" | "encryptionKeyId"> & {
    state: "active" | "next";
    privateEncrypted: Buffer;
    refreshSecretEncrypted: Buffer;
  },
): Promise<void> {
  await tx`
    insert into signing_keys
      (id, algorithm, state, public_jwk, private_encrypted, encryption_key_id, refresh_secret_encrypted,
       refresh_secret_key_id, created_at, activated_at)
    values (${key.id}, ${key.algorithm}, ${key.state}, ${tx.json(key.publicJwk as never)}, ${key.privateEncrypted},
            ${key.encryptionKeyId}, ${key.refreshSecretEncrypted}, ${key.encryptionKeyId}, statement_timestamp(),
            case when ${key.state} = 'active' then statement_timestamp() end)
  `;
}

export async function retireActiveKey(tx: TransactionSql): Promise<void> {
  await tx`
    update signing_keys set state = 'retired', retired_at = statement_timestamp(), private_encrypted = null
    where state = 'active'
  `;
}

export async function activateNextKey(tx: TransactionSql): Promise<void> {
  await tx`update signing_keys set state = 'active', activated_at = statement_timestamp() where state = 'next'`;
}

/** The public key and the refresh secret stay, because its refresh tokens are still accepted. */
export async function markKeyRevoked(tx: TransactionSql, keyId: string): Promise<void> {
  await tx`
    update signing_keys
    set state = 'revoked', retired_at = coalesce(retired_at, clock.at), private_encrypted = null
    from (select statement_timestamp() as at) as clock
    where id = ${keyId}
  `;
}

export async function deleteNextKey(tx: TransactionSql): Promise<void> {
  await tx`delete from signing_keys where state = 'next'`;
}

export async function deleteRetiredKeys(tx: TransactionSql, afterS: number): Promise<number> {
  const result = await tx`
    delete from signing_keys
    where state in ('retired', 'revoked') and retired_at < now() - make_interval(secs => ${afterS})
  `;
  return result.count;
}

export async function replaceEncryptedKey(
  tx: TransactionSql,
  keyId: string,
  privateEncrypted: Buffer,
  encryptionKeyId: string,
): Promise<void> {
  await tx`
    update signing_keys
    set private_encrypted = ${privateEncrypted}, encryption_key_id = ${encryptionKeyId}
    where id = ${keyId} and private_encrypted is not null
  `;
}

export async function replaceRefreshSecret(
  tx: TransactionSql,
  keyId: string,
  refreshSecretEncrypted: Buffer,
  encryptionKeyId: string,
): Promise<void> {
  await tx`
    update signing_keys
    set refresh_secret_encrypted = ${refreshSecretEncrypted}, refresh_secret_key_id = ${encryptionKeyId}
    where id = ${keyId}
  `;
}
