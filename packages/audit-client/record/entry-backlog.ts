import type { DomainError } from "#kit/values/errors.ts";
import type { SequencedEntry } from "#proto/gatehouse/audit/v1/audit_service.ts";
import type { Entry } from "#proto/gatehouse/audit/v1/entry.ts";
import { toSequenced } from "../spool/resend-run.ts";
import type { SpoolQueue } from "../spool/spool-queue.ts";
import { recordBytes, type SpoolRecord } from "../spool/spool-record.ts";
import type { EntrySource } from "./record-connection.ts";

interface Numbered<T> {
  sequence: number;
  item: T;
}

/** Items numbered from 1 without gaps. */
export class UnacknowledgedQueue<T> {
  readonly #items = new Map<number, T>();
  #next = 1;

  get length(): number {
    return this.#items.size;
  }

  /** Equals `next` without items. */
  get first(): number {
    return this.#next - this.#items.size;
  }

  get next(): number {
    return this.#next;
  }

  push(item: T): void {
    this.#items.set(this.#next, item);
    this.#next += 1;
  }

  from(sequence: number, limit: number): Numbered<T>[] {
    const found: Numbered<T>[] = [];
    for (let at = sequence; found.length < limit; at += 1) {
      const item = this.#items.get(at);
      if (item === undefined) break;
      found.push({ sequence: at, item });
    }
    return found;
  }

  acknowledge(sequence: number): T[] {
    const acknowledged = this.from(this.first, sequence - this.first + 1);
    for (const { sequence: at } of acknowledged) this.#items.delete(at);
    return acknowledged.map(({ item }) => item);
  }
}

export interface QueuedEntry {
  entry: Entry;
  /** Empty without a spool. */
  bytes: Uint8Array;
  /** Monotonic milliseconds. */
  addedMs: number;
  waiter: Waiter | undefined;
}

interface Waiter {
  resolve: () => void;
  reject: (error: DomainError) => void;
  timer: NodeJS.Timeout;
}

const MAX_BATCH_ENTRIES = 200;

/** Older entries are on the disk, newer ones in memory. */
export class EntryBacklog implements EntrySource {
  readonly #queue = new UnacknowledgedQueue<QueuedEntry>();
  readonly #disk: SpoolQueue | undefined;
  #queuedBytes = 0;

  constructor(disk: SpoolQueue | undefined) {
    this.#disk = disk;
  }

  get first(): number {
    return Math.min(this.#disk?.first ?? Number.POSITIVE_INFINITY, this.#queue.first);
  }

  get next(): number {
    return this.#queue.next;
  }

  get oldestInMemory(): QueuedEntry | undefined {
    return this.#queue.from(this.firstInMemory, 1)[0]?.item;
  }

  get firstInMemory(): number {
    return this.#queue.first;
  }

  get lengthInMemory(): number {
    return this.#queue.length;
  }

  get bytesInMemory(): number {
    return this.#queuedBytes;
  }

  add(queued: QueuedEntry): void {
    this.#queue.push(queued);
    this.#queuedBytes += recordBytes(queued.bytes.length);
  }

  fromMemory(sequence: number): SequencedEntry[] | undefined {
    if (sequence < this.firstInMemory) return undefined;
    const batch = this.#queue.from(sequence, MAX_BATCH_ENTRIES);
    return batch.map((numbered) => ({ sequence: numbered.sequence, entry: numbered.item.entry }));
  }

  async fromDisk(sequence: number): Promise<SequencedEntry[] | undefined> {
    return (await this.#disk?.read(sequence, MAX_BATCH_ENTRIES))?.map(toSequenced);
  }

  skip(to: number | undefined): void {
    this.#disk?.skip(to);
  }

  group(limit: number): SpoolRecord[] {
    const group = this.#queue.from(this.firstInMemory, limit);
    return group.map(({ sequence, item }) => ({ sequence, entry: item.bytes }));
  }

  settle(upTo: number): void {
    for (const { waiter, bytes } of this.#queue.acknowledge(upTo)) {
      this.#queuedBytes -= recordBytes(bytes.length);
      clearTimeout(waiter?.timer);
      waiter?.resolve();
    }
  }

  rejectWaiters(error: DomainError): void {
    for (const { item } of this.#queue.from(this.firstInMemory, this.#queue.length)) {
      clearTimeout(item.waiter?.timer);
      item.waiter?.reject(error);
      item.waiter = undefined;
    }
  }
}
