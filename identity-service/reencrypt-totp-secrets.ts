import type { EncryptionKey } from "../service-kit/key-cipher.ts";
import type { Logger } from "../service-kit/logger.ts";
import { type Sql, transaction } from "../service-kit/postgres.ts";
import { lockSecretsOfKey, replaceEncryption } from "./mfa-store.ts";
import { type MfaKeys, openTotpSecret, sealTotpSecret } from "./totp-secret.ts";

const BATCH = 100;

export interface ReencryptDeps {
  sql: Sql;
  mfaKeys: MfaKeys;
  logger: Logger;
}

/**
 * Encrypts with the present key what an earlier one encrypts, a batch a transaction. Any number of replicas may. A
 * secret that cannot be read is logged and left as it is.
 *
 * @returns how many were encrypted anew.
 */
export async function reencryptTotpSecrets(deps: ReencryptDeps): Promise<number> {
  const [, ...earlier] = deps.mfaKeys;
  let done = 0;
  for (const key of earlier) {
    let afterUserId: string | null = null;
    do {
      const batch: Batch = await reencryptBatch(deps, key, afterUserId);
      done += batch.done;
      afterUserId = batch.lastUserId;
    } while (afterUserId !== null);
  }
  return done;
}

interface Batch {
  done: number;
  /** Null at the end. */
  lastUserId: string | null;
}

function reencryptBatch(
  { sql, mfaKeys, logger }: ReencryptDeps,
  key: EncryptionKey,
  afterUserId: string | null,
): Promise<Batch> {
  return transaction(sql, async (tx) => {
    const secrets = await lockSecretsOfKey(tx, key.id, { afterUserId, limit: BATCH });
    let done = 0;
    for (const { userId, ...sealed } of secrets) {
      try {
        const secret = openTotpSecret(mfaKeys, userId, sealed);
        await replaceEncryption(tx, { userId, ...sealTotpSecret(mfaKeys, userId, secret) });
        done += 1;
      } catch (error) {
        logger.error({ err: error, userId }, "TOTP secret cannot be read; its owner cannot give a code");
      }
    }
    return { done, lastUserId: secrets.at(-1)?.userId ?? null };
  }) as Promise<Batch>;
}
