import { createHmac, createSecretKey } from "node:crypto";
import { readForeignHash } from "./foreign-hash.ts";
import { costText, readStoredHash } from "./stored-hash.ts";

export interface UsedCost {
  /** All of a hash before its salt. */
  cost: string;
  count: number;
}

const DOMAIN = "gatehouse dummy cost";
const DRAW_BYTES = 6;
const PHC_END = `$${"A".repeat(22)}$${"A".repeat(43)}`;
const BCRYPT_END = `$${".".repeat(53)}`;

/** A hash of this cost that belongs to nobody. */
export function dummyHash(cost: string): string {
  return cost + (cost.startsWith("$2") ? BCRYPT_END : PHC_END);
}

/** @returns the cost in its one spelling; undefined for a cost that no hash may have. */
export function knownCost(cost: string): string | undefined {
  const own = readStoredHash(dummyHash(cost));
  return own === undefined ? readForeignHash(dummyHash(cost))?.cost : costText(own);
}

/**
 * Draws from stored costs: a fixed one would reveal accounts with old parameters, or with imported hashes, by timing. The
 * key has 32 bytes, the same in every replica.
 */
export function drawCost(used: readonly UsedCost[], current: string, key: Buffer, address: string): string {
  const mac = createHmac("sha256", createSecretKey(key)).update(`${DOMAIN}\n${address}`).digest();
  // Addresses thus move only from imported costs to ours and to higher ones of ours, as accounts do.
  const byCost = used.toSorted((a, b) => workOf(a) - workOf(b) || (a.cost < b.cost ? -1 : 1));
  const total = byCost.reduce((sum, { count }) => sum + count, 0);
  let left = (mac.readUIntBE(0, DRAW_BYTES) / 2 ** (8 * DRAW_BYTES)) * total;
  for (const { cost, count } of byCost) {
    left -= count;
    if (left < 0) return cost;
  }
  return current;
}

function workOf({ cost }: UsedCost): number {
  const own = readStoredHash(dummyHash(cost));
  return own === undefined ? 0 : own.memoryKib * own.iterations;
}
