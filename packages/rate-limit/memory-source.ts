import { type Decision, decide, type LimitedBucket, refund } from "./gcra.ts";

/** About 25 MB when full. */
const MAX_ENTRIES = 100_000;
/** For each kind, shared by new names while the table is full. */
const OVERFLOW_BUCKETS = 256;
const CHECKS_WHEN_FULL = 8;
const CHECKS_OF_A_SWEEP = 2_000;

export interface Entry {
  readonly kind: string;
  readonly name: string;
  tatMs: number;
  /** Still to be added to the TAT in Redis. Entries with some are never dropped. */
  unreportedMs: number;
}

/**
 * A bounded table of buckets. Only empty ones are dropped, so a flood of new names resets no count. New names
 * share buckets while the table is full.
 */
export class MemorySource {
  /** By kind and name, so that a look-up builds no key. */
  readonly #kinds = new Map<string, Map<string, Entry>>();
  readonly #entries = new Set<Entry>();
  readonly #overflow = new Map<string, Entry>();
  readonly #maxEntries: number;
  #cursor = this.#entries.values();

  constructor(maxEntries = MAX_ENTRIES) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#entries.size + this.#overflow.size;
  }

  /** Counts a call in all buckets, or in none if one has no room. */
  spend<B extends LimitedBucket>(
    buckets: readonly B[],
    nowMs: number,
    onCounted?: (entry: Entry, bucket: B) => void,
  ): Decision[] {
    const decisions: Decision[] = [];
    const entries: (Entry | undefined)[] = [];
    let isAllowed = true;
    for (const bucket of buckets) {
      const entry = this.#findOrMakeRoom(bucket, nowMs);
      const decision = decide(bucket.limit, entry?.tatMs ?? 0, nowMs);
      entries.push(entry);
      decisions.push(decision);
      isAllowed &&= decision.isAllowed;
    }
    if (!isAllowed) return decisions;
    for (let index = 0; index < buckets.length; index += 1) {
      const bucket = buckets[index] as B;
      const entry = entries[index] ?? this.#add(bucket);
      entry.tatMs = nowMs + (decisions[index] as Decision).resetInMs;
      onCounted?.(entry, bucket);
    }
    return decisions;
  }

  /** Dropped buckets are empty anyway. */
  refund(buckets: readonly LimitedBucket[]): void {
    for (const bucket of buckets) {
      const entry = this.#find(bucket);
      if (entry !== undefined) entry.tatMs = refund(bucket.limit, entry.tatMs);
    }
  }

  sweep(nowMs: number): void {
    this.#dropEmpty(CHECKS_OF_A_SWEEP, nowMs);
    for (const [key, entry] of this.#overflow) {
      if (isDroppable(entry, nowMs)) this.#overflow.delete(key);
    }
  }

  clear(): void {
    this.#kinds.clear();
    this.#entries.clear();
    this.#overflow.clear();
  }

  #find(bucket: LimitedBucket): Entry | undefined {
    const own = this.#kinds.get(bucket.kind)?.get(bucket.name);
    return own === undefined && this.#isFull ? this.#overflow.get(overflowKey(bucket)) : own;
  }

  #findOrMakeRoom(bucket: LimitedBucket, nowMs: number): Entry | undefined {
    const own = this.#kinds.get(bucket.kind)?.get(bucket.name);
    if (own !== undefined || !this.#isFull) return own;
    this.#dropEmpty(CHECKS_WHEN_FULL, nowMs);
    return this.#find(bucket);
  }

  #add({ kind, name }: LimitedBucket): Entry {
    if (this.#isFull) {
      const shared: Entry = { kind, name: overflowName(name), tatMs: 0, unreportedMs: 0 };
      this.#overflow.set(overflowKey({ kind, name }), shared);
      return shared;
    }
    const entry: Entry = { kind, name, tatMs: 0, unreportedMs: 0 };
    const names = this.#kinds.get(kind) ?? new Map<string, Entry>();
    this.#kinds.set(kind, names.set(name, entry));
    this.#entries.add(entry);
    return entry;
  }

  get #isFull(): boolean {
    return this.#entries.size >= this.#maxEntries;
  }

  #dropEmpty(checks: number, nowMs: number): void {
    for (let left = Math.min(checks, this.#entries.size); left > 0; left -= 1) {
      const next = this.#cursor.next();
      if (next.done) this.#cursor = this.#entries.values();
      else if (isDroppable(next.value, nowMs)) this.#delete(next.value);
    }
  }

  #delete(entry: Entry): void {
    this.#kinds.get(entry.kind)?.delete(entry.name);
    this.#entries.delete(entry);
  }
}

function isDroppable({ tatMs, unreportedMs }: Entry, nowMs: number): boolean {
  return tatMs <= nowMs && unreportedMs === 0;
}

function overflowName(name: string): string {
  let hash = 0;
  for (let index = 0; index < name.length; index += 1) hash = (hash * 31 + name.charCodeAt(index)) | 0;
  return `overflow:${(hash >>> 0) % OVERFLOW_BUCKETS}`;
}

function overflowKey({ kind, name }: Pick<LimitedBucket, "kind" | "name">): string {
  return `${kind} ${overflowName(name)}`;
}
