import { createHmac } from "node:crypto";
import type { EncryptionKey } from "../../service-kit/key-cipher.ts";

/** A key that passwords pass through before they are hashed: without it a stolen database cannot be guessed at. */
export interface Pepper {
  /** 8 bytes in base64 without padding, as the `keyid` of a PHC string: which key, not what it is. */
  id: string;
  /** @returns HMAC-SHA-256 of the text, in base64. */
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
