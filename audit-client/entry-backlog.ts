import type { SequencedEntry } from "../proto/gen/gatehouse/audit/v1/audit_service.ts";
import type { Entry } from "../proto/gen/gatehouse/audit/v1/entry.ts";
import type { DomainError } from "../service-kit/errors.ts";
import type { EntrySource } from "./record-connection.ts";
import { toSequenced } from "./resend-run.ts";
import type { SpoolQueue } from "./spool-queue.ts";
import { recordBytes, type SpoolRecord } from "./spool-record.ts";
import { UnacknowledgedQueue } from "./unacknowledged-queue.ts";

/** An entry in memory. */
export interface QueuedEntry {
  entry: Entry;
  /** As it would go to the spool; empty without one. */
  bytes: Uint8Array;
  /** Monotonic, in milliseconds. */
  addedMs: number;
  waiter: Waiter | undefined;
}

/** A caller that waits until its entry is durable. */
interface Waiter {
  resolve: () => void;
  reject: (error: DomainError) => void;
  timer: NodeJS.Timeout;
}

const MAX_BATCH_ENTRIES = 200;

/** The unacknowledged entries of a process: an older part on the disk and a newer one in memory. */
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

  /** The oldest entry in memory. */
  get oldestInMemory(): QueuedEntry | undefined {
    return this.#queue.from(this.firstInMemory, 1)[0]?.item;
  }

  /** Its sequence; `next` if there is none. */
  get firstInMemory(): number {
    return this.#queue.first;
  }

  get lengthInMemory(): number {
    return this.#queue.length;
  }

  /** What the entries in memory would take in the spool. */
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

  /** The oldest entries in memory, as the spool takes them. */
  group(limit: number): SpoolRecord[] {
    const group = this.#queue.from(this.firstInMemory, limit);
    return group.map(({ sequence, item }) => ({ sequence, entry: item.bytes }));
  }

  /** Entries in memory up to this sequence are durable, there or here: their waiters go on. */
  settle(upTo: number): void {
    for (const { waiter, bytes } of this.#queue.acknowledge(upTo)) {
      this.#queuedBytes -= recordBytes(bytes.length);
      clearTimeout(waiter?.timer);
      waiter?.resolve();
    }
  }

  /** The entries stay queued; who waits for one fails. */
  rejectWaiters(error: DomainError): void {
    for (const { item } of this.#queue.from(this.firstInMemory, this.#queue.length)) {
      clearTimeout(item.waiter?.timer);
      item.waiter?.reject(error);
      item.waiter = undefined;
    }
  }
}
