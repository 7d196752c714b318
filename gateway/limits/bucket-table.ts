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
  readonly kind: string;
  readonly name: string;
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
  /**
   * By kind and name. Nested, so that a look-up builds no key. There are few kinds, so an empty map may stay.
   */
  readonly #kinds = new Map<string, Map<string, BucketState>>();
  readonly #entries = new Set<BucketState>();
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
    const states: (BucketState | undefined)[] = [];
    let isRefused = false;
    for (const bucket of buckets) {
      const state = this.#find(bucket, nowMs);
      const debtMs = Math.max((state?.emptyAtMs ?? 0) - nowMs, 0) + intervalMs(bucket.limit, replicas);
      states.push(state);
      debtsMs.push(debtMs);
      isRefused ||= overflowMs(bucket.limit, debtMs) > 0;
    }
    if (isRefused) return debtsMs;
    for (let index = 0; index < buckets.length; index += 1) {
      const bucket = buckets[index] as Bucket;
      const state = states[index] ?? this.#add(bucket);
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
    const known = this.#kinds.get(bucket.kind)?.get(bucket.name);
    if (known !== undefined || !this.#isFull) return known;
    this.#drop(LOOKS_FOR_A_PLACE, nowMs);
    return this.#isFull ? this.#crowd.get(crowdKey(bucket)) : undefined;
  }

  #add({ kind, name, scope, limit }: Bucket): BucketState {
    const state: BucketState = { kind, name, scope, limit, emptyAtMs: 0, untold: 0 };
    if (this.#isFull) {
      const shared = { ...state, name: crowdName(name) };
      this.#crowd.set(crowdKey({ kind, name }), shared);
      return shared;
    }
    const names = this.#kinds.get(kind) ?? new Map<string, BucketState>();
    this.#kinds.set(kind, names.set(name, state));
    this.#entries.add(state);
    return state;
  }

  #delete(state: BucketState): void {
    this.#kinds.get(state.kind)?.delete(state.name);
    this.#entries.delete(state);
  }

  get #isFull(): boolean {
    return this.#entries.size >= this.#maxEntries;
  }

  /** Goes round, a few at a time. */
  #drop(looks: number, nowMs: number): void {
    for (let left = Math.min(looks, this.#entries.size); left > 0; left -= 1) {
      const next = this.#hand.next();
      if (next.done) this.#hand = this.#entries.values();
      else if (isDroppable(next.value, nowMs)) this.#delete(next.value);
    }
  }
}

function isDroppable({ emptyAtMs, untold }: BucketState, nowMs: number): boolean {
  return emptyAtMs <= nowMs && untold === 0;
}

function crowdName(name: string): string {
  let hash = 0;
  for (let index = 0; index < name.length; index += 1) hash = (hash * 31 + name.charCodeAt(index)) | 0;
  return `crowd:${(hash >>> 0) % CROWD_BUCKETS}`;
}

function crowdKey({ kind, name }: Pick<Bucket, "kind" | "name">): string {
  return `${kind} ${crowdName(name)}`;
}
