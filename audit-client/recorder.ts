import { Entry } from "../proto/gen/gatehouse/audit/v1/entry.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import type { AuditEntry, AuditEvent, AuditEventRecorder } from "./audit-entry.ts";
import type { RecordStream, RecordStreamHandlers } from "./record-stream.ts";
import { toSequenced } from "./resend-run.ts";
import { retryDelayMs } from "./retry-delay.ts";
import type { Spool } from "./spool.ts";
import { recordBytes } from "./spool-record.ts";
import { MAX_ENTRY_BYTES, toProto } from "./to-proto.ts";
import { UnacknowledgedQueue } from "./unacknowledged-queue.ts";

export interface RecorderLimits {
  /** Entries kept in memory until acknowledged. */
  maxQueuedEntries: number;
  /** Of these, kept free for outcomes: what was begun can still be told when no more may begin. */
  reservedForOutcomes: number;
  /** A stream that has not answered for so long, while an answer is due, is given up. */
  stallTimeoutMs: number;
  /** How long a lost stream may take to come back before the process counts as unready. */
  unreadyAfterMs: number;
  /** With a spool: how long an entry may wait for its acknowledgement before it goes to the disk. */
  spoolAfterMs: number;
}

export interface RecorderDeps {
  openStream: (handlers: RecordStreamHandlers) => RecordStream;
  /** Called when a stream gave no answer: its connection may be dead without knowing it. */
  onStall: () => void;
  /** Takes entries over while audit-service is away. Without one, calls wait for it. */
  spool?: Spool | undefined;
  /** UUID, another one in each process start. */
  producerId: string;
  newEntryId: () => string;
  /** 0 to 1. */
  random: () => number;
  limits: RecorderLimits;
  logger: Logger;
  metrics: Metrics;
}

interface QueuedEntry {
  entry: Entry;
  /** As it would go to the spool; empty without one. */
  bytes: Uint8Array;
  /** Monotonic, in milliseconds. */
  addedMs: number;
  waiter: Waiter | undefined;
}

interface Waiter {
  resolve: () => void;
  reject: (error: DomainError) => void;
  timer: NodeJS.Timeout;
}

const MAX_BATCH_ENTRIES = 200;
const RETRY_AFTER_MS = 1_000;
const WATCH_INTERVAL_MS = 50;
const MAX_SPOOL_GROUP_ENTRIES = 1_000;
const SPOOL_RETRY_MS = 1_000;
const MAX_SPOOLED_BYTES = recordBytes(MAX_ENTRY_BYTES);

/**
 * Sends entries over one stream at a time and keeps each until it is acknowledged. After a reconnect, everything
 * unacknowledged goes out again, in order; audit-service stores it once.
 *
 * With a spool, what is not acknowledged in time moves to the disk and counts as recorded from then on. The
 * unacknowledged entries are then always an older part on the disk and a newer one in memory, and go out in that
 * order; as long as the disk's part has not all been sent, what is new goes to the disk too.
 */
export class Recorder implements AuditEventRecorder {
  readonly #deps: RecorderDeps;
  readonly #queue = new UnacknowledgedQueue<QueuedEntry>();
  readonly #watch: NodeJS.Timeout;
  readonly #acknowledged: { inc(count: number): void };
  readonly #reconnects: { inc(): void };
  readonly #durableSeconds: { observe(seconds: number): void };
  readonly #spooledEntries: { inc(count: number): void };
  readonly #drainedEntries: { inc(count: number): void };
  readonly #spoolErrors: { inc(): void };
  #stream: RecordStream | undefined;
  /** The first sequence that the present stream has not been given. */
  #unsent = 1;
  #isBackedUp = false;
  #isSendScheduled = false;
  #hasSent = false;
  /** True once the present stream has brought an answer. */
  #isAnswered = false;
  /** When the present stream last gave a sign, or last had no answer due. Monotonic, in milliseconds. */
  #lastSignMs = 0;
  /** Since when no stream has brought an answer. */
  #downSinceMs = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #loggedFailure: string | undefined;
  #retryTimer: NodeJS.Timeout | undefined;
  /** Unacknowledged entries on the disk, both inclusive; empty if the first is past the last. */
  #spooled = { first: 1, last: 0 };
  #acknowledgedUpTo = 0;
  /** True while new entries go to the disk. */
  #isAway = false;
  #spooling: Promise<void> | undefined;
  #isReadingSpool = false;
  #spoolFailedMs: number | undefined;
  #queuedBytes = 0;
  /** Outcomes still to come, of intents that were taken. */
  #owedOutcomes = 0;
  #closing: Promise<void> | undefined;
  #onEmpty: (() => void) | undefined;

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
    const { metrics } = deps;
    this.#acknowledged = metrics.counter(
      "gatehouse_audit_acknowledged_total",
      "Audit entries acknowledged as committed.",
    );
    this.#reconnects = metrics.counter(
      "gatehouse_audit_reconnects_total",
      "Audit streams that had to be reopened.",
    );
    this.#durableSeconds = metrics.histogram(
      "gatehouse_audit_durable_seconds",
      "Time until an audit entry that is waited for is durable.",
    );
    this.#spooledEntries = metrics.counter(
      "gatehouse_audit_spooled_total",
      "Audit entries that went to the spool because audit-service did not acknowledge them in time.",
    );
    this.#drainedEntries = metrics.counter(
      "gatehouse_audit_spool_drained_total",
      "Audit entries acknowledged from the spool.",
    );
    this.#spoolErrors = metrics.counter(
      "gatehouse_audit_spool_errors_total",
      "Failures to write, read or remove spool files.",
    );
    metrics.gauge("gatehouse_audit_queued_entries", "Audit entries not acknowledged yet.", [], (gauge) =>
      gauge.set(this.#queue.next - this.#firstUnacknowledged()),
    );
    this.#watch = setInterval(() => {
      this.#giveUpStalledStream();
      this.#spoolWhatIsLate();
    }, WATCH_INTERVAL_MS).unref();
    this.#open();
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

  assertReady(): void {
    if (this.#closing !== undefined) throw unavailable("The recorder is closed");
    if (this.#queue.length >= this.#capacityFor("intent")) throw unavailable("The queue is full");
    if (this.#deps.spool !== undefined) {
      this.#assertSpoolTakes(MAX_SPOOLED_BYTES);
      return;
    }
    const { unreadyAfterMs } = this.#deps.limits;
    if (!this.#isAnswered && performance.now() - this.#downSinceMs > unreadyAfterMs) {
      throw unavailable("audit-service does not answer");
    }
  }

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
    this.#durableSeconds.observe((performance.now() - queued.addedMs) / 1_000);
  }

  #add(entry: AuditEntry | AuditEvent): QueuedEntry {
    const { newEntryId, spool } = this.#deps;
    // Also if it cannot be taken: nobody brings it again, and its room in the spool is free.
    if (entry.kind === "outcome") this.#owedOutcomes = Math.max(0, this.#owedOutcomes - 1);
    if (this.#closing !== undefined) throw unavailable("The recorder is closed");
    if (this.#queue.length >= this.#capacityFor(entry.kind)) throw unavailable("The queue is full");
    const wire = toProto(entry, { id: newEntryId(), occurredAt: new Date() });
    const bytes = spool === undefined ? NO_BYTES : Entry.encode(wire).finish();
    if (this.#isAway && entry.kind !== "outcome") this.#assertSpoolTakes(recordBytes(bytes.length));
    if (entry.kind === "intent") this.#owedOutcomes += 1;
    const queued = { entry: wire, bytes, addedMs: performance.now(), waiter: undefined };
    this.#queue.push(queued);
    this.#queuedBytes += recordBytes(bytes.length);
    this.#scheduleSend();
    return queued;
  }

  /** Also when everything in memory and every outcome still to come has gone there. */
  #assertSpoolTakes(bytes: number): void {
    const { spool } = this.#deps;
    if (!this.#isAway || spool === undefined) return;
    if (this.#spoolFailedMs !== undefined) throw unavailable("The spool cannot be written");
    const reserved = this.#queuedBytes + (this.#owedOutcomes + 1) * MAX_SPOOLED_BYTES;
    if (spool.freeBytes - reserved < bytes) throw unavailable("The spool is full");
  }

  #capacityFor(kind: (AuditEntry | AuditEvent)["kind"]): number {
    const { maxQueuedEntries, reservedForOutcomes } = this.#deps.limits;
    return kind === "outcome" ? maxQueuedEntries : maxQueuedEntries - reservedForOutcomes;
  }

  /** Entries of one turn of the event loop go out together. */
  #scheduleSend(): void {
    if (this.#isSendScheduled) return;
    this.#isSendScheduled = true;
    setImmediate(() => {
      this.#isSendScheduled = false;
      this.#send();
      if (this.#isAway) this.#spool();
    });
  }

  #send(): void {
    const { producerId } = this.#deps;
    if (!this.#isAnswerDue()) this.#lastSignMs = performance.now();
    while (this.#stream !== undefined && this.#maySend() && this.#unsent < this.#queue.next) {
      if (this.#unsent < this.#queue.first) {
        void this.#sendFromSpool(this.#stream, this.#unsent);
        return;
      }
      const batch = this.#queue.from(this.#unsent, MAX_BATCH_ENTRIES);
      this.#unsent += batch.length;
      const entries = batch.map(({ sequence, item }) => ({ sequence, entry: item.entry }));
      this.#isBackedUp = !this.#stream.send({ producerId, entries });
      this.#hasSent = true;
    }
  }

  async #sendFromSpool(stream: RecordStream, from: number): Promise<void> {
    const { spool, producerId, logger } = this.#deps;
    if (this.#isReadingSpool || spool === undefined) return;
    this.#isReadingSpool = true;
    const records = await spool.read(from, MAX_BATCH_ENTRIES).catch((error: unknown) => {
      this.#spoolErrors.inc();
      logger.error({ err: error }, "the spool cannot be read; it is tried again");
      return undefined;
    });
    this.#isReadingSpool = false;
    const isStill = stream === this.#stream && from === this.#unsent && from >= this.#firstUnacknowledged();
    if (!isStill) return this.#send();
    if (records === undefined || records[0]?.sequence !== from) {
      // Numbers of one stream count up by 1: what follows on damage goes over another one.
      if (records !== undefined) this.#spooled.first = records[0]?.sequence ?? this.#spooled.last + 1;
      stream.cancel();
      return this.#onLost(undefined);
    }
    this.#unsent += records.length;
    this.#isBackedUp = !stream.send({ producerId, entries: records.map(toSequenced) });
    this.#hasSent = true;
    this.#send();
  }

  /** One message until the first answer: a stream that is going to fail costs no more than that. */
  #maySend(): boolean {
    return !this.#isBackedUp && (this.#isAnswered || !this.#hasSent);
  }

  #open(): void {
    this.#unsent = this.#firstUnacknowledged();
    this.#isAnswered = false;
    this.#hasSent = false;
    this.#isBackedUp = false;
    this.#lastSignMs = performance.now();
    this.#stream = this.#deps.openStream({
      onAcknowledged: (sequence) => this.#onAcknowledged(sequence),
      onDrain: () => {
        this.#isBackedUp = false;
        this.#send();
      },
      onEnd: (error) => this.#onLost(error),
    });
    // Nothing to send: an empty message, which is answered too, tells whether anybody listens.
    if (this.#unsent === this.#queue.next) {
      this.#stream.send({ producerId: this.#deps.producerId, entries: [] });
      this.#hasSent = true;
    }
    this.#send();
  }

  #onAcknowledged(sequence: number): void {
    const { logger } = this.#deps;
    this.#lastSignMs = performance.now();
    if (!this.#isAnswered) {
      const wasDown = this.#loggedFailure !== undefined && this.#loggedFailure !== "ended";
      if (wasDown) logger.info({ queued: this.#queue.length }, "audit-service answers again");
      this.#isAnswered = true;
      this.#failures = 0;
      this.#loggedFailure = undefined;
    }
    // Never more than this stream was given: nobody can have committed that.
    const upTo = Math.min(sequence, this.#unsent - 1);
    const before = this.#firstUnacknowledged();
    this.#acknowledgedUpTo = Math.max(this.#acknowledgedUpTo, upTo);
    this.#releaseSpooled();
    this.#settle(upTo);
    this.#acknowledged.inc(this.#firstUnacknowledged() - before);
    if (this.#unsent >= this.#queue.first) this.#isAway = false;
    this.#send();
  }

  #firstUnacknowledged(): number {
    return Math.min(
      this.#spooled.first <= this.#spooled.last ? this.#spooled.first : Infinity,
      this.#queue.first,
    );
  }

  /** These entries are durable, there or here: nobody waits for them any more. */
  #settle(upTo: number): void {
    for (const { waiter, bytes } of this.#queue.acknowledge(upTo)) {
      this.#queuedBytes -= recordBytes(bytes.length);
      clearTimeout(waiter?.timer);
      waiter?.resolve();
    }
    if (!this.#isOwing()) this.#onEmpty?.();
  }

  /** Whether entries are not acknowledged yet, on the disk or in memory: at the end nobody may come to send them. */
  #isOwing(): boolean {
    return this.#firstUnacknowledged() < this.#queue.next;
  }

  #spoolWhatIsLate(): void {
    const { spool, limits } = this.#deps;
    const oldest = this.#queue.from(this.#queue.first, 1)[0]?.item;
    if (spool === undefined || oldest === undefined) return;
    if (performance.now() - oldest.addedMs < limits.spoolAfterMs) return;
    this.#isAway = true;
    this.#spool();
  }

  #spool(): void {
    const { spool } = this.#deps;
    const failedMs = this.#spoolFailedMs ?? Number.NEGATIVE_INFINITY;
    if (spool === undefined || this.#spooling !== undefined) return;
    if (performance.now() - failedMs < SPOOL_RETRY_MS) return;
    this.#spooling = this.#spoolAll(spool).finally(() => {
      this.#spooling = undefined;
    });
  }

  /** What comes while one group is written goes into the next. */
  async #spoolAll(spool: Spool): Promise<void> {
    const { logger } = this.#deps;
    try {
      while (this.#isAway && this.#queue.length > 0) {
        const group = this.#queue.from(this.#queue.first, MAX_SPOOL_GROUP_ENTRIES);
        await spool.append(group.map(({ sequence, item }) => ({ sequence, entry: item.bytes })));
        if (this.#spoolFailedMs !== undefined) logger.info("the spool can be written again");
        this.#spoolFailedMs = undefined;
        this.#onSpooled(group.map(({ sequence }) => sequence));
      }
    } catch (error) {
      this.#onSpoolFailed(error);
    }
  }

  #onSpooled(sequences: readonly number[]): void {
    const [first = 0, last = 0] = [sequences[0], sequences.at(-1)];
    if (this.#spooled.first > this.#spooled.last) {
      this.#spooled.first = first;
      this.#deps.logger.warn("audit-service does not answer in time; entries go to the spool");
    }
    this.#spooled.last = last;
    this.#spooledEntries.inc(sequences.length);
    this.#releaseSpooled();
    this.#settle(last);
  }

  #releaseSpooled(): void {
    const { spool, logger } = this.#deps;
    const upTo = Math.min(this.#acknowledgedUpTo, this.#spooled.last);
    if (spool === undefined || upTo < this.#spooled.first) return;
    this.#drainedEntries.inc(upTo + 1 - this.#spooled.first);
    this.#spooled.first = upTo + 1;
    if (upTo === this.#spooled.last) logger.info("the spool is drained");
    spool.release(upTo).catch((error: unknown) => {
      // What stays is sent again by the next process, and stored once.
      this.#spoolErrors.inc();
      logger.error({ err: error }, "a spool file cannot be removed");
    });
  }

  /** Who waits is told now: neither there nor here can anything be recorded. The entries stay queued. */
  #onSpoolFailed(error: unknown): void {
    if (this.#spoolFailedMs === undefined) {
      this.#deps.logger.error({ err: error }, "the spool cannot be written; changing calls are refused");
    }
    this.#spoolFailedMs = performance.now();
    this.#spoolErrors.inc();
    for (const { item } of this.#queue.from(this.#queue.first, this.#queue.length)) {
      clearTimeout(item.waiter?.timer);
      item.waiter?.reject(unavailable("The spool cannot be written"));
      item.waiter = undefined;
    }
  }

  #onLost(error: DomainError | undefined): void {
    const { logger, random } = this.#deps;
    if (this.#isAnswered) this.#downSinceMs = performance.now();
    this.#stream = undefined;
    this.#isAnswered = false;
    this.#failures += 1;
    this.#reconnects.inc();
    // A line when it begins and when the reason changes, not one for each attempt.
    const reason = error?.code ?? "ended";
    if (reason !== this.#loggedFailure && error !== undefined) {
      logger.warn({ err: error, queued: this.#queue.length }, "the audit stream failed; it is opened again");
    }
    this.#loggedFailure = reason;
    this.#retryTimer = setTimeout(() => this.#open(), retryDelayMs(this.#failures, random())).unref();
  }

  #isAnswerDue(): boolean {
    return this.#stream !== undefined && (!this.#isAnswered || this.#unsent > this.#firstUnacknowledged());
  }

  #giveUpStalledStream(): void {
    const { limits, onStall } = this.#deps;
    if (!this.#isAnswerDue() || performance.now() - this.#lastSignMs < limits.stallTimeoutMs) return;
    this.#stream?.cancel();
    onStall();
    this.#onLost(unavailable("The stream gave no answer"));
  }

  async #flushAndClose(graceMs: number): Promise<void> {
    if (this.#isOwing()) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, graceMs);
        this.#onEmpty = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
    clearInterval(this.#watch);
    clearTimeout(this.#retryTimer);
    this.#stream?.cancel();
    this.#stream = undefined;
    // What nobody has acknowledged is left on the disk for the next process.
    this.#isAway = true;
    this.#spoolFailedMs = undefined;
    await this.#spooling;
    this.#spool();
    await this.#spooling;
    const lost = this.#queue.acknowledge(this.#queue.next - 1);
    for (const { waiter } of lost) {
      clearTimeout(waiter?.timer);
      waiter?.reject(unavailable("The recorder is closed"));
    }
    if (lost.length > 0)
      this.#deps.logger.error({ entries: lost.length }, "audit entries were not acknowledged");
  }
}

const NO_BYTES = new Uint8Array();

function unavailable(message: string): DomainError {
  return new DomainError("audit_unavailable", message, { retryAfterMs: RETRY_AFTER_MS });
}
