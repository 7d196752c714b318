import { createCipheriv, createDecipheriv, createHash, randomBytes } from "node:crypto";

export interface EncryptionKey {
  id: string;
  bytes: Buffer;
}

const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** @returns undefined unless the text is 32 bytes in canonical base64 with at least 8 different values. */
export function parseEncryptionKey(text: string): EncryptionKey | undefined {
  const bytes = Buffer.from(text, "base64");
  const isCanonical = bytes.toString("base64") === text;
  if (!isCanonical || bytes.length !== KEY_BYTES || new Set(bytes).size < 8) return undefined;
  return { id: createHash("sha256").update("key id").update(bytes).digest("hex").slice(0, 16), bytes };
}

/** AES-256-GCM: nonce (12 bytes), ciphertext, tag (16 bytes). */
export function encrypt(key: EncryptionKey, plaintext: Buffer, context: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv("aes-256-gcm", key.bytes, nonce).setAAD(Buffer.from(context));
  return Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}

/** @throws if the data was changed, or the key or context differs. */
export function decrypt(key: EncryptionKey, encrypted: Buffer, context: string): Buffer {
  const nonce = encrypted.subarray(0, NONCE_BYTES);
  const tag = encrypted.subarray(-TAG_BYTES);
  const decipher = createDecipheriv("aes-256-gcm", key.bytes, nonce)
    .setAAD(Buffer.from(context))
    .setAuthTag(tag);
  return Buffer.concat([decipher.update(encrypted.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
}
