import { createHmac } from "node:crypto";
import type { EncryptionKey } from "#kit/values/key-cipher.ts";

/** A keyed hash before argon2, against offline attacks on a stolen database. */
export interface Pepper {
  /** The PHC `keyid`: 8 bytes in base64 without padding. Not secret. */
  id: string;
  /** HMAC-SHA-256 in base64. */
  apply(text: string): string;
}

/** @see https://github.com/P-H-C/phc-string-format/blob/master/phc-sf-spec.md for `keyid`. */
export function createPepper(key: EncryptionKey): Pepper {
  return {
    id: Buffer.from(key.id, "hex")
      .toString("base64")
      .replace(/={1,2}$/, ""),
    apply: (text) => createHmac("sha256", key.bytes).update(text).digest("base64"),
  };
}
