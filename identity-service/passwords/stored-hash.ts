import { createHmac, createSecretKey } from "node:crypto";
import type { EncryptionKey } from "#kit/values/key-cipher.ts";

export interface Argon2Parameters {
  /** `m`, in KiB. */
  memoryKib: number;
  /** `t`, passes. */
  iterations: number;
  /** `p`, lanes. */
  parallelism: number;
}

interface StoredHash extends Argon2Parameters {
  pepperId: string | undefined;
}

/** Write access to the table must not exhaust memory. */
export const ARGON2_CEILING: Argon2Parameters = { memoryKib: 131_072, iterations: 10, parallelism: 4 };

/** RFC 9106 §3.1. */
export const MIN_KIB_PER_LANE = 8;

/** Argon2id 1.3 with 16 bytes salt and 32 bytes output. Libraries order costs differently. */
const PHC =
  /^\$argon2id\$v=19\$((?:[mtp]=[1-9]\d{0,5},){2}[mtp]=[1-9]\d{0,5})(?:,keyid=([A-Za-z0-9+/]{11}))?\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/;

/** Undefined for anything else, or a cost above the ceiling. */
export function readStoredHash(text: string): StoredHash | undefined {
  const [, costs, pepperId, salt, output] = PHC.exec(text) ?? [];
  if (costs === undefined || salt === undefined || output === undefined) return undefined;
  if (!isCanonical(salt) || !isCanonical(output)) return undefined;
  const numbers = new Map(costs.split(",").map((cost) => [cost[0], Number(cost.slice(2))]));
  const [memoryKib, iterations, parallelism] = ["m", "t", "p"].map((name) => numbers.get(name));
  // A duplicate leaves another undefined.
  if (memoryKib === undefined || iterations === undefined || parallelism === undefined) return undefined;
  const isWithinBounds =
    memoryKib >= MIN_KIB_PER_LANE * parallelism &&
    memoryKib <= ARGON2_CEILING.memoryKib &&
    iterations <= ARGON2_CEILING.iterations &&
    parallelism <= ARGON2_CEILING.parallelism;
  return isWithinBounds ? { memoryKib, iterations, parallelism, pepperId } : undefined;
}

/** Argon2's decoder throws on non-zero spare bits. */
function isCanonical(base64: string): boolean {
  return (
    Buffer.from(base64, "base64")
      .toString("base64")
      .replace(/={1,2}$/, "") === base64
  );
}

/** All before the salt, without the pepper. */
export function costText({ memoryKib, iterations, parallelism }: Argon2Parameters): string {
  return `$argon2id$v=19$m=${memoryKib},t=${iterations},p=${parallelism}`;
}

/** As argon2 accepts it. */
export function withoutPepperId(hash: string): string {
  return hash.replace(/,keyid=[^$]*/, "");
}

export function withPepperId(hash: string, pepperId: string): string {
  return hash.replace(/^(\$argon2id\$v=19\$[^$]+)/, `$1,keyid=${pepperId}`);
}

/** A keyed hash before argon2, against offline attacks on a stolen database. */
export interface Pepper {
  /** The PHC `keyid`: 8 bytes in base64 without padding. Not secret. */
  id: string;
  /** HMAC-SHA-256 in base64. */
  apply(text: string): string;
}

/** @see https://github.com/P-H-C/phc-string-format/blob/master/phc-sf-spec.md for `keyid`. */
export function createPepper(key: EncryptionKey): Pepper {
  const secret = createSecretKey(key.bytes);
  return {
    id: Buffer.from(key.id, "hex")
      .toString("base64")
      .replace(/={1,2}$/, ""),
    apply: (text) => createHmac("sha256", secret).update(text).digest("base64"),
  };
}
