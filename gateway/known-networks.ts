import { createHash } from "node:crypto";

/** As long as a day at the least: who comes every day stays known. */
const REMEMBERED_MS = 86_400_000;
/** The others are told of a network again after so long, should Redis have forgotten. */
const TELL_AGAIN_MS = 3_600_000;
const MAX_NETWORKS = 100_000;

/** Networks from which somebody was let in lately, as far as this process knows. */
export class KnownNetworks {
  /** When each was good for the last time, the oldest first. */
  readonly #goodMs = new Map<string, number>();
  readonly #max: number;

  constructor(max = MAX_NETWORKS) {
    this.#max = max;
  }

  /** @param nowMs of a monotonic clock. */
  has(network: string, nowMs: number): boolean {
    return nowMs - (this.#goodMs.get(network) ?? Number.NEGATIVE_INFINITY) < REMEMBERED_MS;
  }

  /** @returns whether it is time to tell the others. */
  add(network: string, nowMs: number): boolean {
    const beforeMs = this.#goodMs.get(network);
    if (beforeMs !== undefined && nowMs - beforeMs < TELL_AGAIN_MS) return false;
    this.#goodMs.delete(network);
    this.#goodMs.set(network, nowMs);
    const [oldest] = this.#goodMs.keys();
    if (this.#goodMs.size > this.#max && oldest !== undefined) this.#goodMs.delete(oldest);
    return true;
  }
}

/**
 * In Redis the networks of a day are a Bloom filter of 8 MiB: its size is bounded whatever an attacker does, and what it
 * takes for known by mistake (0.1 % at three million networks) is only spared a limit that everybody shares.
 */
const FILTER_BITS = 2 ** 26;
/** Days that a filter is looked at, and one on which it has expired before its name is used again. */
export const FILTERS = 3;

/** The bits of a network in a day's filter. */
export function filterBits(network: string): number[] {
  const digest = createHash("sha256").update(network).digest();
  return [0, 4, 8, 12].map((offset) => digest.readUInt32BE(offset) % FILTER_BITS);
}
