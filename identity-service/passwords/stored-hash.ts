/** What one argon2id hash costs. */
export interface Argon2Parameters {
  /** `m`, in KiB. */
  memoryKib: number;
  /** `t`, passes over the memory. */
  iterations: number;
  /** `p`, lanes. */
  parallelism: number;
}

/** What a stored hash says of itself. */
export interface StoredHash extends Argon2Parameters {
  /** Which pepper went into it; undefined: none. */
  pepperId: string | undefined;
}

/** The most that a stored hash may ask for: whoever can write to the table must not choose what we allocate. */
export const ARGON2_CEILING: Argon2Parameters = { memoryKib: 131_072, iterations: 10, parallelism: 4 };

/** RFC 9106 §3.1: at least 8 KiB a lane. */
const MIN_KIB_PER_LANE = 8;

/**
 * argon2id, version 1.3, a salt of 16 bytes and an output of 32, numbers without leading zeros. The costs come
 * in any order, because libraries write them in different ones. `keyid` names the pepper: 8 bytes.
 */
const PHC =
  /^\$argon2id\$v=19\$((?:[mtp]=[1-9]\d{0,5},){2}[mtp]=[1-9]\d{0,5})(?:,keyid=([A-Za-z0-9+/]{11}))?\$([A-Za-z0-9+/]{22})\$([A-Za-z0-9+/]{43})$/;

/**
 * Reads what a stored password hash says of itself.
 *
 * @returns undefined for anything that we would not have written: another algorithm or version, a cost above
 *   the ceiling, another length of salt or output.
 * @see https://github.com/P-H-C/phc-string-format and RFC 9106.
 */
export function readStoredHash(text: string): StoredHash | undefined {
  const [, costs, pepperId, salt, output] = PHC.exec(text) ?? [];
  if (costs === undefined || salt === undefined || output === undefined) return undefined;
  if (!isCanonical(salt) || !isCanonical(output)) return undefined;
  const numbers = new Map(costs.split(",").map((cost) => [cost[0], Number(cost.slice(2))]));
  const [memoryKib, iterations, parallelism] = ["m", "t", "p"].map((name) => numbers.get(name));
  // One named twice leaves another without a value.
  if (memoryKib === undefined || iterations === undefined || parallelism === undefined) return undefined;
  const isWithinBounds =
    memoryKib >= MIN_KIB_PER_LANE * parallelism &&
    memoryKib <= ARGON2_CEILING.memoryKib &&
    iterations <= ARGON2_CEILING.iterations &&
    parallelism <= ARGON2_CEILING.parallelism;
  return isWithinBounds ? { memoryKib, iterations, parallelism, pepperId } : undefined;
}

/** Base64 without padding whose spare bits are zero; argon2's decoder throws at others. */
function isCanonical(base64: string): boolean {
  return (
    Buffer.from(base64, "base64")
      .toString("base64")
      .replace(/={1,2}$/, "") === base64
  );
}

/** A hash without the name of its pepper, as argon2 takes it. */
export function withoutPepperId(hash: string): string {
  return hash.replace(/,keyid=[^$]*/, "");
}

/** A hash as argon2 gives it, with the name of its pepper. */
export function withPepperId(hash: string, pepperId: string): string {
  return hash.replace(/^(\$argon2id\$v=19\$[^$]+)/, `$1,keyid=${pepperId}`);
}
