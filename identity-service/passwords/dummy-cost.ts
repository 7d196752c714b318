import { createHmac } from "node:crypto";
import type { Argon2Parameters } from "./stored-hash.ts";

/** Parameters that stored hashes have, and how many of a sample have them. */
export interface UsedCost extends Argon2Parameters {
  count: number;
}

const DOMAIN = "gatehouse dummy cost";
const DRAW_BYTES = 6;

/**
 * What a login to an address without a password costs: like that of some account. The same address costs the same each
 * time, and as many cost the old parameters as accounts do: else, after the parameters were raised, who measures a
 * refusal would know the accounts that have not logged in since.
 *
 * @param used what accounts have. None: `current`.
 * @param key 32 random bytes, the same in every replica.
 */
export function drawCost(
  used: readonly UsedCost[],
  current: Argon2Parameters,
  key: Buffer,
  address: string,
): Argon2Parameters {
  const mac = createHmac("sha256", key).update(`${DOMAIN}\n${address}`).digest();
  // As accounts move to dearer parameters, addresses move with them, and never back.
  const byCost = used.toSorted((a, b) => workOf(a) - workOf(b));
  const total = byCost.reduce((sum, { count }) => sum + count, 0);
  let left = (mac.readUIntBE(0, DRAW_BYTES) / 2 ** (8 * DRAW_BYTES)) * total;
  for (const cost of byCost) {
    left -= cost.count;
    if (left < 0) return cost;
  }
  return current;
}

function workOf({ memoryKib, iterations }: Argon2Parameters): number {
  return memoryKib * iterations;
}
