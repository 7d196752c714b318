import { createHmac } from "node:crypto";
import type { Argon2Parameters } from "./stored-hash.ts";

export interface UsedCost extends Argon2Parameters {
  count: number;
}

const DOMAIN = "gatehouse dummy cost";
const DRAW_BYTES = 6;

/**
 * Draws from stored costs: a fixed one would reveal accounts with old parameters by timing. The key has 32 bytes, the same in every replica.
 */
export function drawCost(
  used: readonly UsedCost[],
  current: Argon2Parameters,
  key: Buffer,
  address: string,
): Argon2Parameters {
  const mac = createHmac("sha256", key).update(`${DOMAIN}\n${address}`).digest();
  // Addresses thus move only to higher costs, as accounts do.
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
