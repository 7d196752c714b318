import { type Bucket, intervalMs, overflowMs } from "./bucket.ts";

/** About 25 MB when full. */
const MAX_ENTRIES = 100_000;
/** Shared buckets of each kind for whoever comes when the table is full. */
const CROWD_BUCKETS = 256;
/** Entries looked at for each new one, and at each sweep. */
const LOOKS_FOR_A_PLACE = 8;
const LOOKS_OF_A_SWEEP = 2_000;

/** A bucket's state in this process. */
export interface BucketState {
  readonly key: string;
  readonly scope: Bucket["scope"];
  /** As the last call had it: routes may change. */
  limit: Bucket["limit"];
  /** When it will be empty, in milliseconds of the table's clock. */
  emptyAtMs: number;
  /** Calls that the other gateways have not been told of. */
  untold: number;
}

/**
 * Buckets in memory, a bounded number of them. One that has run empty is as good as none, so only such are dropped:
 * no flood of new addresses makes an old one's count forgotten. Newcomers that find the table full share a few buckets:
 * the crowd is limited, not the attacker freed.
 */
export class BucketTable {
  readonly #entries = new Map<string, BucketState>();
  readonly #crowd = new Map<string, BucketState>();
  readonly #maxEntries: number;
  #hand = this.#entries.values();

  constructor(maxEntries = MAX_ENTRIES) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#entries.size + this.#crowd.size;
  }

  /**
   * Counts a call in all of the buckets, or in none if one has no room.
   *
   * @param replicas that share the limits, each with its part.
   * @param counted is told of each bucket that the call was counted in.
   * @returns milliseconds until each is empty, this call included: see `verdictOf`.
   */
  take(
    buckets: readonly Bucket[],
    nowMs: number,
    replicas: number,
    counted?: (state: BucketState) => void,
  ): number[] {
    const debtsMs: number[] = [];
    let isRefused = false;
    for (const bucket of buckets) {
      const emptyAtMs = this.#find(bucket, nowMs)?.emptyAtMs ?? 0;
      const debtMs = Math.max(emptyAtMs - nowMs, 0) + intervalMs(bucket.limit, replicas);
      debtsMs.push(debtMs);
      isRefused ||= overflowMs(bucket.limit, debtMs) > 0;
    }
    if (isRefused) return debtsMs;
    for (let index = 0; index < buckets.length; index += 1) {
      const bucket = buckets[index] as Bucket;
      const state = this.#find(bucket, nowMs) ?? this.#add(bucket);
      state.emptyAtMs = nowMs + (debtsMs[index] ?? 0);
      state.limit = bucket.limit;
      counted?.(state);
    }
    return debtsMs;
  }

  /** Drops some that have run empty. To be called now and then, so that a table that was full once is not for ever. */
  sweep(nowMs: number): void {
    this.#drop(LOOKS_OF_A_SWEEP, nowMs);
    for (const [key, state] of this.#crowd) {
      if (isDroppable(state, nowMs)) this.#crowd.delete(key);
    }
  }

  #find(bucket: Bucket, nowMs: number): BucketState | undefined {
    const known = this.#entries.get(bucket.key);
    if (known !== undefined || !this.#isFull) return known;
    this.#drop(LOOKS_FOR_A_PLACE, nowMs);
    return this.#isFull ? this.#crowd.get(crowdKey(bucket)) : undefined;
  }

  #add({ key, scope, limit }: Bucket): BucketState {
    const state = { scope, key: this.#isFull ? crowdKey({ key }) : key, limit, emptyAtMs: 0, untold: 0 };
    (this.#isFull ? this.#crowd : this.#entries).set(state.key, state);
    return state;
  }

  get #isFull(): boolean {
    return this.#entries.size >= this.#maxEntries;
  }

  /** Goes round, a few at a time. */
  #drop(looks: number, nowMs: number): void {
    for (let left = Math.min(looks, this.#entries.size); left > 0; left -= 1) {
      const next = this.#hand.next();
      if (next.done) this.#hand = this.#entries.values();
      else if (isDroppable(next.value, nowMs)) this.#entries.delete(next.value.key);
    }
  }
}

function isDroppable({ emptyAtMs, untold }: BucketState, nowMs: number): boolean {
  return emptyAtMs <= nowMs && untold === 0;
}

/** Kinds are few: the part of a key before its last space. */
function crowdKey({ key }: Pick<Bucket, "key">): string {
  let hash = 0;
  for (let index = 0; index < key.length; index += 1) hash = (hash * 31 + key.charCodeAt(index)) | 0;
  return `${key.slice(0, key.lastIndexOf(" "))} crowd:${(hash >>> 0) % CROWD_BUCKETS}`;
}
