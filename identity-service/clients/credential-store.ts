import { randomUUID } from "node:crypto";
import type { JWK } from "jose";
import { isUniqueViolation, type Sql, type TransactionSql } from "#kit/database/postgres.ts";

export type CredentialKind = "public_key" | "secret" | "api_key";

/** Without what is secret. */
export interface ClientCredential {
  id: string;
  kind: CredentialKind;
  name: string;
  /** `kid`, or `gh_<public id>`. Empty for a secret. */
  keyId: string;
  createdAt: Date;
  /** Exact to a minute. */
  lastUsedAt: Date | null;
}

/** What proves a credential. */
export type CredentialProof = { publicJwk: JWK; secretHash: null } | { publicJwk: null; secretHash: Buffer };

/** A credential of an active client, as its proof is checked. */
export type LiveCredential = CredentialProof & {
  id: string;
  clientId: string;
  keyId: string;
  permissions: string[];
  lastUsedAt: Date | null;
  /** Database time before the row was read: what revokes the credential is committed later. */
  provenAt: Date;
};

const live = (sql: Sql) => sql`
  select cc.id, cc.client_id as "clientId", cc.key_id as "keyId", cc.public_jwk as "publicJwk",
         cc.secret_hash as "secretHash", cc.last_used_at as "lastUsedAt", c.permissions,
         statement_timestamp() as "provenAt"
  from client_credentials as cc join clients as c on c.id = cc.client_id and c.status = 'active'
`;

/** At most two. */
export function selectLiveCredentials(
  sql: Sql,
  clientId: string,
  kind: CredentialKind,
): Promise<LiveCredential[]> {
  return sql<
    LiveCredential[]
  >`${live(sql)} where cc.client_id = ${clientId} and cc.kind = ${kind} order by cc.id`;
}

export async function findApiKey(sql: Sql, publicId: string): Promise<LiveCredential | undefined> {
  const [row] = await sql<LiveCredential[]>`
    ${live(sql)} where cc.kind = 'api_key' and cc.key_id = ${publicId}
  `;
  return row;
}

/** Oldest first. */
export function selectCredentials(sql: Sql | TransactionSql, clientId: string): Promise<ClientCredential[]> {
  return sql<ClientCredential[]>`
    select id, kind, name, key_id as "keyId", created_at as "createdAt", last_used_at as "lastUsedAt"
    from client_credentials where client_id = ${clientId} order by created_at, id
  `;
}

/** Requires the client's lock. @returns false if the client has this public key already. */
export async function insertCredential(
  tx: TransactionSql,
  clientId: string,
  credential: ClientCredential & CredentialProof,
): Promise<boolean> {
  const { id, kind, name, keyId, publicJwk, secretHash, createdAt } = credential;
  try {
    await tx`
      insert into client_credentials (id, client_id, kind, name, key_id, public_jwk, secret_hash, created_at)
      values (${id}, ${clientId}, ${kind}, ${name}, ${keyId}, ${publicJwk && tx.json({ ...publicJwk })},
              ${secretHash}, ${createdAt})
    `;
    return true;
  } catch (error) {
    if (isUniqueViolation(error, "client_credentials_public_keys")) return false;
    throw error;
  }
}

/** Requires the client's lock. */
export async function deleteCredential(
  tx: TransactionSql,
  clientId: string,
  credentialId: string,
): Promise<ClientCredential | undefined> {
  const [row] = await tx<ClientCredential[]>`
    delete from client_credentials where client_id = ${clientId} and id = ${credentialId}
    returning id, kind, name, key_id as "keyId", created_at as "createdAt", last_used_at as "lastUsedAt"
  `;
  return row;
}

/** The credentials go on under new ids, so that those they had can be revoked. Requires the client's lock. */
export async function replaceCredentialIds(tx: TransactionSql, clientId: string): Promise<string[]> {
  const old = await tx<{ id: string }[]>`select id from client_credentials where client_id = ${clientId}`;
  const ids = old.map(({ id }) => id);
  await tx`
    update client_credentials as cc set id = renewed.id
    from unnest(${ids}::uuid[], ${ids.map(() => randomUUID())}::uuid[]) as renewed (old, id)
    where cc.client_id = ${clientId} and cc.id = renewed.old
  `;
  return ids;
}

export async function noteCredentialUse(sql: Sql, credentialId: string, at: Date): Promise<void> {
  await sql`
    update client_credentials set last_used_at = greatest(last_used_at, ${at}) where id = ${credentialId}
  `;
}

/** @returns false if the assertion was used before. */
export async function insertAssertion(
  sql: Sql,
  assertion: { clientId: string; jtiHash: Buffer; expiresAt: Date },
): Promise<boolean> {
  const { clientId, jtiHash, expiresAt } = assertion;
  const result = await sql`
    insert into client_assertions (client_id, jti_hash, expires_at)
    values (${clientId}, ${jtiHash}, ${expiresAt}) on conflict do nothing
  `;
  return result.count === 1;
}

/** Longer than clocks differ. */
const KEEP_EXPIRED = "1 hour";

export async function deleteExpiredAssertions(sql: Sql, limit: number): Promise<number> {
  const result = await sql`
    delete from client_assertions where (client_id, jti_hash) in (
      select client_id, jti_hash from client_assertions
      where expires_at < now() - ${KEEP_EXPIRED}::interval
      order by expires_at limit ${limit}
    )
  `;
  return result.count;
}

export async function readApiKeyMark(sql: Sql): Promise<Buffer> {
  const [row] = await sql<{ key: Buffer }[]>`select key from api_key_mark`;
  if (row === undefined) throw new Error("api_key_mark is empty");
  return row.key;
}
