import { decrypt, type EncryptionKey, encrypt } from "#kit/values/key-cipher.ts";
import type { EncryptedSecret } from "./mfa-store.ts";

/** The current key first. */
export type MfaKeys = readonly [EncryptionKey, ...EncryptionKey[]];

/** AES-256-GCM with user and key id as additional data. */
export function sealTotpSecret([key]: MfaKeys, userId: string, secret: Buffer): EncryptedSecret {
  return { secretEncrypted: encrypt(key, secret, contextOf(userId, key.id)), keyId: key.id };
}

/** @throws {Error} for an unknown key, a changed ciphertext, or another user's. */
export function openTotpSecret(keys: MfaKeys, userId: string, sealed: EncryptedSecret): Buffer {
  const key = keys.find(({ id }) => id === sealed.keyId);
  if (key === undefined) {
    throw new Error(
      `the TOTP secret of ${userId} is encrypted with key ${sealed.keyId}, which is not configured`,
    );
  }
  return decrypt(key, sealed.secretEncrypted, contextOf(userId, key.id));
}

function contextOf(userId: string, keyId: string): string {
  return `totp ${userId} ${keyId}`;
}
