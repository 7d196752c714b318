import { randomBytes } from "node:crypto";
import { type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { decrypt, type EncryptionKey, encrypt } from "#kit/values/key-cipher.ts";
import type { Algorithm } from "#token-client/compact-jws.ts";
import {
  deleteNextKey,
  deleteRetiredKeys,
  insertKey,
  listKeys,
  lockKeys,
  replaceEncryptedKey,
  replaceRefreshSecret,
  type SigningKeyRow,
} from "./key-store.ts";
import { generateSigningKey, refreshSecretContext } from "./signing-key.ts";

export interface SigningKeyDeps {
  sql: Sql;
  /** The current key comes first. */
  encryptionKeys: readonly [EncryptionKey, ...EncryptionKey[]];
  algorithm: Algorithm;
  /** Longest life of a refresh token after its key stopped signing. */
  longestTokenS: number;
  now: () => Date;
}

/** Ensures one active key, one next key, and the current encryption. */
export async function ensureSigningKeys(deps: SigningKeyDeps): Promise<void> {
  await transaction(deps.sql, async (tx) => {
    await lockKeys(tx);
    const keys = await listKeys(tx);
    for (const key of keys) await encryptAnew(tx, deps, key);
    if (!keys.some((key) => key.state === "active")) await addKey(tx, deps, "active");
    await ensureNextKey(tx, deps, keys);
    await deleteRetiredKeys(tx, deps.longestTokenS);
  });
}

/** The caller holds `lockKeys`. */
export async function ensureNextKey(
  tx: TransactionSql,
  deps: SigningKeyDeps,
  keys: readonly Pick<SigningKeyRow, "state" | "algorithm">[],
): Promise<void> {
  const next = keys.find((key) => key.state === "next");
  if (next?.algorithm === deps.algorithm) return;
  // The algorithm was changed. A next key has signed nothing.
  if (next !== undefined) await deleteNextKey(tx);
  await addKey(tx, deps, "next");
}

async function addKey(tx: TransactionSql, deps: SigningKeyDeps, state: "active" | "next"): Promise<void> {
  const { id, publicJwk, privateJwk } = await generateSigningKey(deps.algorithm);
  const [encryptionKey] = deps.encryptionKeys;
  await insertKey(tx, {
    id,
    algorithm: deps.algorithm,
    state,
    publicJwk,
    privateEncrypted: encrypt(encryptionKey, Buffer.from(JSON.stringify(privateJwk)), id),
    encryptionKeyId: encryptionKey.id,
    refreshSecretEncrypted: encrypt(encryptionKey, randomBytes(32), refreshSecretContext(id)),
  });
}

async function encryptAnew(tx: TransactionSql, deps: SigningKeyDeps, key: SigningKeyRow): Promise<void> {
  const { id } = key;
  const [present] = deps.encryptionKeys;
  const privateJwk = underPresentKey(deps, key.privateEncrypted, key.encryptionKeyId, id);
  if (privateJwk !== undefined) await replaceEncryptedKey(tx, id, privateJwk, present.id);
  const context = refreshSecretContext(id);
  const secret = underPresentKey(deps, key.refreshSecretEncrypted, key.refreshSecretKeyId, context);
  if (secret !== undefined) await replaceRefreshSecret(tx, id, secret, present.id);
}

/** Undefined if there is nothing to change. */
function underPresentKey(
  { encryptionKeys }: SigningKeyDeps,
  encrypted: Buffer | null,
  encryptionKeyId: string,
  context: string,
): Buffer | undefined {
  const [present] = encryptionKeys;
  if (encrypted === null || encryptionKeyId === present.id) return undefined;
  const old = encryptionKeys.find(({ id }) => id === encryptionKeyId);
  // The key ring reports a key that is missing.
  return old && encrypt(present, decrypt(old, encrypted, context), context);
}
