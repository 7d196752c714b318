import { decrypt, type EncryptionKey, encrypt } from "../../service-kit/key-cipher.ts";
import type { EncryptedSecret } from "./mfa-store.ts";

/** The present key first; then those that secrets may still be encrypted with. */
export type MfaKeys = readonly [EncryptionKey, ...EncryptionKey[]];

/** Encrypts a user's TOTP secret with the present key: AES-256-GCM, bound to the user and the key. */
export function sealTotpSecret([key]: MfaKeys, userId: string, secret: Buffer): EncryptedSecret {
  return { secretEncrypted: encrypt(key, secret, contextOf(userId, key.id)), keyId: key.id };
}

/** @throws if the key is not configured, or the text was changed or is another user's: a defect, nothing to go on with. */
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
