import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError } from "#kit/values/errors.ts";
import { Entry } from "#proto/gatehouse/audit/v1/entry.ts";
import type { Spool } from "../spool/spool.ts";
import { SpoolQueue } from "../spool/spool-queue.ts";
import { recordBytes } from "../spool/spool-record.ts";
import type { AuditEntry, AuditEvent, AuditEventRecorder, AuditRecorder } from "../stream/audit-entry.ts";
import type { RecorderMetrics } from "../stream/recorder-metrics.ts";
import { MAX_ENTRY_BYTES, toProto } from "../stream/to-proto.ts";
import { EntryBacklog, type QueuedEntry } from "./entry-backlog.ts";
import { RecordConnection, type RecordConnectionDeps } from "./record-connection.ts";

export interface RecorderLimits {
  maxQueuedEntries: number;
  /** Part of `maxQueuedEntries`. Calls that have begun can then still be recorded. */
  reservedForOutcomes: number;
  stallTimeoutMs: number;
  unreadyAfterMs: number;
  spoolAfterMs: number;
}

export interface RecorderDeps
  extends Pick<RecordConnectionDeps, "openStream" | "onStall" | "producerId" | "random"> {
  spool?: Spool | undefined;
  newEntryId: () => string;
  limits: RecorderLimits;
  logger: Logger;
  metrics: RecorderMetrics;
}

/** `spooling`: new entries go to the disk too, until everything there has been sent. */
type Mode = "streaming" | "spooling" | "closed";

const RETRY_AFTER_MS = 1_000;
const WATCH_INTERVAL_MS = 50;
const MAX_SPOOL_GROUP_ENTRIES = 1_000;
const MAX_SPOOLED_BYTES = recordBytes(MAX_ENTRY_BYTES);
const NO_BYTES = new Uint8Array();

/**
 * Keeps entries in memory until audit-service acknowledges them. With a spool, late entries move to the disk and then count as
 * recorded.
 */
export class Recorder implements AuditRecorder, AuditEventRecorder {
  readonly #deps: RecorderDeps;
  readonly #disk: SpoolQueue | undefined;
  readonly #backlog: EntryBacklog;
  readonly #connection: RecordConnection;
  /** Runs while an answer is due or an entry is owed. */
  #watch: NodeJS.Timeout | undefined;
  #mode: Mode = "streaming";
  #isSendScheduled = false;
  #spooling: Promise<void> | undefined;
  /** Accepted intents without an outcome. */
  #owedOutcomes = 0;
  #closing: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
    const { spool, metrics, logger, limits } = deps;
    this.#disk = spool && new SpoolQueue(spool, metrics, logger);
    this.#backlog = new EntryBacklog(this.#disk);
    this.#connection = new RecordConnection({
      ...deps,
      openStream: (handlers) => {
        this.#startWatch();
        return deps.openStream(handlers);
      },
      source: this.#backlog,
      onAcknowledged: (upTo) => this.#onAcknowledged(upTo),
      stallTimeoutMs: limits.stallTimeoutMs,
      reconnects: metrics.reconnects,
    });
    this.#connection.open();
  }

  get queuedEntries(): number {
    return this.#backlog.next - this.#backlog.first;
  }

  /** Its stream answers in time, and a call would be taken. */
  get isPrompt(): boolean {
    if (this.#connection.downMs > 0 || this.#mode !== "streaming" || this.#isFullFor("intent")) return false;
    const oldest = this.#backlog.oldestInMemory;
    return oldest === undefined || !this.#isLate(oldest);
  }

  record(entry: AuditEntry, deadlineMs: number): Promise<void> {
    return this.#addAndWait(entry, deadlineMs);
  }

  recordEvent(event: AuditEvent, deadlineMs: number): Promise<void> {
    return this.#addAndWait(event, deadlineMs);
  }

  enqueue(entry: AuditEntry): void {
    this.#add(entry);
  }

  /** @throws {DomainError} `audit_unavailable` while nothing can be recorded. */
  assertReady(): void {
    this.#assertTakes("intent");
    if (this.#disk !== undefined) this.#assertSpoolTakes(MAX_SPOOLED_BYTES);
    else if (this.#connection.downMs > this.#deps.limits.unreadyAfterMs)
      throw unavailable("audit-service does not answer");
  }

  /** Waits at most `graceMs` for queued entries. */
  close(graceMs: number): Promise<void> {
    this.#closing ??= this.#flushAndClose(graceMs);
    return this.#closing;
  }

  async #addAndWait(entry: AuditEntry | AuditEvent, deadlineMs: number): Promise<void> {
    const remainingMs = deadlineMs - Date.now();
    if (remainingMs <= 0) throw unavailable("The deadline has passed");
    const queued = this.#add(entry);
    try {
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(() => {
          queued.waiter = undefined;
          reject(unavailable("The entry was not acknowledged in time"));
        }, remainingMs).unref();
        queued.waiter = { resolve, reject, timer };
      });
    } catch (error) {
      if (entry.kind === "intent") this.#owedOutcomes -= 1;
      throw error;
    }
    this.#deps.metrics.durableSeconds.observe((performance.now() - queued.addedMs) / 1_000);
  }

  #add(entry: AuditEntry | AuditEvent): QueuedEntry {
    const { newEntryId, spool } = this.#deps;
    // Comes before the checks: a refused outcome is not repeated.
    if (entry.kind === "outcome") this.#owedOutcomes = Math.max(0, this.#owedOutcomes - 1);
    this.#assertTakes(entry.kind);
    const wire = toProto(entry, { id: newEntryId(), occurredAt: new Date() });
    const bytes = spool === undefined ? NO_BYTES : Entry.encode(wire).finish();
    if (entry.kind !== "outcome") this.#assertSpoolTakes(recordBytes(bytes.length));
    if (entry.kind === "intent") this.#owedOutcomes += 1;
    const queued = { entry: wire, bytes, addedMs: performance.now(), waiter: undefined };
    this.#backlog.add(queued);
    this.#startWatch();
    this.#scheduleSend();
    return queued;
  }

  #assertTakes(kind: (AuditEntry | AuditEvent)["kind"]): void {
    if (this.#closing !== undefined) throw unavailable("The recorder is closed");
    if (this.#isFullFor(kind)) throw unavailable("The queue is full");
  }

  #isFullFor(kind: (AuditEntry | AuditEvent)["kind"]): boolean {
    const { maxQueuedEntries, reservedForOutcomes } = this.#deps.limits;
    const capacity = kind === "outcome" ? maxQueuedEntries : maxQueuedEntries - reservedForOutcomes;
    return this.#backlog.lengthInMemory >= capacity;
  }

  /** The spool must also hold the entries in memory and every owed outcome. */
  #assertSpoolTakes(bytes: number): void {
    if (this.#mode !== "spooling" || this.#disk === undefined) return;
    if (this.#disk.hasFailed) throw unavailable("The spool cannot be written");
    const reserved = this.#backlog.bytesInMemory + (this.#owedOutcomes + 1) * MAX_SPOOLED_BYTES;
    if (this.#disk.freeBytes - reserved < bytes) throw unavailable("The spool is full");
  }

  /** Batches the entries of one turn of the event loop. */
  #scheduleSend(): void {
    if (this.#isSendScheduled) return;
    this.#isSendScheduled = true;
    setImmediate(() => {
      this.#isSendScheduled = false;
      this.#connection.send();
      if (this.#mode === "spooling") this.#spool();
    });
  }

  #onAcknowledged(upTo: number): void {
    const before = this.#backlog.first;
    this.#disk?.acknowledge(upTo);
    this.#settle(upTo);
    this.#deps.metrics.acknowledged.inc(this.#backlog.first - before);
    const isDiskSent = this.#connection.unsent >= this.#backlog.firstInMemory;
    if (this.#mode === "spooling" && isDiskSent) this.#mode = "streaming";
  }

  #settle(upTo: number): void {
    this.#backlog.settle(upTo);
    if (!this.#isOwing) this.#onEmpty?.();
  }

  /** Includes the disk, because there may be no later process to send its entries. */
  get #isOwing(): boolean {
    return this.#backlog.first < this.#backlog.next;
  }

  #startWatch(): void {
    this.#watch ??= setInterval(() => {
      this.#connection.giveUpIfStalled();
      this.#spoolIfLate();
      if (this.#isOwing || this.#connection.isConnecting) return;
      clearInterval(this.#watch);
      this.#watch = undefined;
    }, WATCH_INTERVAL_MS).unref();
  }

  #spoolIfLate(): void {
    const oldest = this.#backlog.oldestInMemory;
    if (this.#disk === undefined || oldest === undefined || !this.#isLate(oldest)) return;
    this.#mode = "spooling";
    this.#spool();
  }

  #isLate({ addedMs }: QueuedEntry): boolean {
    return performance.now() - addedMs >= this.#deps.limits.spoolAfterMs;
  }

  #spool(): void {
    const disk = this.#disk;
    if (disk === undefined || this.#spooling !== undefined || !disk.mayWrite) return;
    const move = async () => {
      while (this.#mode !== "streaming" && this.#backlog.lengthInMemory > 0) {
        const group = this.#backlog.group(MAX_SPOOL_GROUP_ENTRIES);
        await disk.append(group);
        this.#settle(group.at(-1)?.sequence ?? 0);
      }
    };
    this.#spooling = move()
      // The entries stay queued.
      .catch(() => this.#backlog.rejectWaiters(unavailable("The spool cannot be written")))
      .finally(() => {
        this.#spooling = undefined;
      });
  }

  async #flushAndClose(graceMs: number): Promise<void> {
    if (this.#isOwing) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, graceMs);
        this.#onEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    clearInterval(this.#watch);
    this.#connection.close();
    // The next process sends the entries on the disk.
    this.#mode = "closed";
    this.#disk?.forgetFailure();
    await this.#spooling;
    this.#spool();
    await this.#spooling;
    const entries = this.#backlog.lengthInMemory;
    this.#backlog.rejectWaiters(unavailable("The recorder is closed"));
    this.#backlog.settle(this.#backlog.next - 1);
    if (entries > 0) this.#deps.logger.error({ entries }, "audit entries were not acknowledged");
  }
}

function unavailable(message: string): DomainError {
  return new DomainError("audit_unavailable", message, { retryAfterMs: RETRY_AFTER_MS });
}
