import type { Entry } from "../proto/gen/gatehouse/audit/v1/entry.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import type { AuditEntry, AuditEvent, AuditEventRecorder } from "./audit-entry.ts";
import type { RecordStream, RecordStreamHandlers } from "./record-stream.ts";
import { retryDelayMs } from "./retry-delay.ts";
import { toProto } from "./to-proto.ts";
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
}

export interface RecorderDeps {
  openStream: (handlers: RecordStreamHandlers) => RecordStream;
  /** Called when a stream gave no answer: its connection may be dead without knowing it. */
  onStall: () => void;
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
  waiter: Waiter | undefined;
}

interface Waiter {
  resolve: () => void;
  reject: (error: DomainError) => void;
  timer: NodeJS.Timeout;
}

const MAX_BATCH_ENTRIES = 200;
const RETRY_AFTER_MS = 1_000;
const WATCH_INTERVAL_MS = 250;

/**
 * Sends entries over one stream at a time and keeps each until it is acknowledged. After a reconnect, everything
 * unacknowledged goes out again, in order; audit-service stores it once.
 */
export class Recorder implements AuditEventRecorder {
  readonly #deps: RecorderDeps;
  readonly #queue = new UnacknowledgedQueue<QueuedEntry>();
  readonly #watch: NodeJS.Timeout;
  readonly #acknowledged: { inc(count: number): void };
  readonly #reconnects: { inc(): void };
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
    metrics.gauge("gatehouse_audit_queued_entries", "Audit entries not acknowledged yet.", [], (gauge) =>
      gauge.set(this.#queue.length),
    );
    this.#watch = setInterval(() => this.#giveUpStalledStream(), WATCH_INTERVAL_MS).unref();
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
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        queued.waiter = undefined;
        reject(unavailable("The entry was not acknowledged in time"));
      }, remainingMs).unref();
      queued.waiter = { resolve, reject, timer };
    });
  }

  #add(entry: AuditEntry | AuditEvent): QueuedEntry {
    if (this.#closing !== undefined) throw unavailable("The recorder is closed");
    if (this.#queue.length >= this.#capacityFor(entry.kind)) throw unavailable("The queue is full");
    const made = { id: this.#deps.newEntryId(), occurredAt: new Date() };
    const queued = { entry: toProto(entry, made), waiter: undefined };
    this.#queue.push(queued);
    this.#scheduleSend();
    return queued;
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
    });
  }

  #send(): void {
    const { producerId } = this.#deps;
    if (!this.#isAnswerDue()) this.#lastSignMs = performance.now();
    while (this.#stream !== undefined && this.#maySend() && this.#unsent < this.#queue.next) {
      const batch = this.#queue.from(this.#unsent, MAX_BATCH_ENTRIES);
      this.#unsent += batch.length;
      const entries = batch.map(({ sequence, item }) => ({ sequence, entry: item.entry }));
      this.#isBackedUp = !this.#stream.send({ producerId, entries });
      this.#hasSent = true;
    }
  }

  /** One message until the first answer: a stream that is going to fail costs no more than that. */
  #maySend(): boolean {
    return !this.#isBackedUp && (this.#isAnswered || !this.#hasSent);
  }

  #open(): void {
    this.#unsent = this.#queue.first;
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
    if (this.#queue.length === 0) {
      this.#stream.send({ producerId: this.#deps.producerId, entries: [] });
      this.#hasSent = true;
    }
    this.#send();
  }

  #onAcknowledged(sequence: number): void {
    const { logger } = this.#deps;
    this.#lastSignMs = performance.now();
    if (!this.#isAnswered) {
      if (this.#failures > 0) logger.info({ queued: this.#queue.length }, "audit-service answers again");
      this.#isAnswered = true;
      this.#failures = 0;
      this.#loggedFailure = undefined;
    }
    // Never more than this stream was given: nobody can have committed that.
    const acknowledged = this.#queue.acknowledge(Math.min(sequence, this.#unsent - 1));
    this.#acknowledged.inc(acknowledged.length);
    for (const { waiter } of acknowledged) {
      clearTimeout(waiter?.timer);
      waiter?.resolve();
    }
    if (this.#queue.length === 0) this.#onEmpty?.();
    this.#send();
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
    return this.#stream !== undefined && (!this.#isAnswered || this.#unsent > this.#queue.first);
  }

  #giveUpStalledStream(): void {
    const { limits, onStall } = this.#deps;
    if (!this.#isAnswerDue() || performance.now() - this.#lastSignMs < limits.stallTimeoutMs) return;
    this.#stream?.cancel();
    onStall();
    this.#onLost(unavailable("The stream gave no answer"));
  }

  async #flushAndClose(graceMs: number): Promise<void> {
    if (this.#queue.length > 0) {
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
    const lost = this.#queue.acknowledge(this.#queue.next - 1);
    for (const { waiter } of lost) {
      clearTimeout(waiter?.timer);
      waiter?.reject(unavailable("The recorder is closed"));
    }
    if (lost.length > 0)
      this.#deps.logger.error({ entries: lost.length }, "audit entries were not acknowledged");
  }
}

function unavailable(message: string): DomainError {
  return new DomainError("audit_unavailable", message, { retryAfterMs: RETRY_AFTER_MS });
}
