import type { SequencedEntry } from "../proto/gen/gatehouse/audit/v1/audit_service.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { RecordStream, RecordStreamHandlers } from "./record-stream.ts";
import { retryDelayMs } from "./retry-delay.ts";

export interface EntrySource {
  /** Equals `next` without entries. */
  readonly first: number;
  readonly next: number;
  /** Undefined if the entry is on the disk. */
  fromMemory(sequence: number): SequencedEntry[] | undefined;
  /** Starts at a later entry after damage. Undefined if the disk fails. */
  fromDisk(sequence: number): Promise<SequencedEntry[] | undefined>;
  /** Omits damaged entries. @param to The next readable entry. */
  skip(to: number | undefined): void;
}

export interface RecordConnectionDeps {
  openStream: (handlers: RecordStreamHandlers) => RecordStream;
  /** The connection may be dead. */
  onStall: () => void;
  onAcknowledged: (upTo: number) => void;
  source: EntrySource;
  producerId: string;
  random: () => number;
  stallTimeoutMs: number;
  reconnects: { inc(): void };
  logger: Logger;
}

type State =
  | { kind: "waiting"; retryTimer: NodeJS.Timeout }
  /** The first message is a test of the stream. */
  | { kind: "connecting"; stream: RecordStream; hasSent: boolean; isBackedUp: boolean }
  | { kind: "streaming"; stream: RecordStream }
  | { kind: "backed_up"; stream: RecordStream }
  | { kind: "closed" };

/** A new stream starts with the oldest entry, because audit-service stores each once. */
export class RecordConnection {
  readonly #deps: RecordConnectionDeps;
  #state: State = { kind: "closed" };
  /** The first sequence that this stream was not given. */
  #unsent = 1;
  #isReadingDisk = false;
  /** Last sign of the stream, or last time without a due answer. Monotonic milliseconds. */
  #lastSignMs = 0;
  #downSinceMs = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #loggedFailure: string | undefined;

  constructor(deps: RecordConnectionDeps) {
    this.#deps = deps;
  }

  get unsent(): number {
    return this.#unsent;
  }

  /** Zero while a stream answers. */
  get downMs(): number {
    return this.#isAnswered ? 0 : performance.now() - this.#downSinceMs;
  }

  get #isAnswered(): boolean {
    return this.#state.kind === "streaming" || this.#state.kind === "backed_up";
  }

  get #stream(): RecordStream | undefined {
    return "stream" in this.#state ? this.#state.stream : undefined;
  }

  get #isAnswerDue(): boolean {
    return this.#state.kind === "connecting" || (this.#isAnswered && this.#unsent > this.#deps.source.first);
  }

  open(): void {
    const { source, openStream } = this.#deps;
    this.#unsent = source.first;
    this.#lastSignMs = performance.now();
    const stream = openStream({
      onAcknowledged: (sequence) => this.#onAcknowledged(sequence),
      onDrain: () => this.#onDrain(),
      onEnd: (error) => this.#onLost(error),
    });
    this.#state = { kind: "connecting", stream, hasSent: false, isBackedUp: false };
    // The answer to an empty message shows that the peer listens.
    if (this.#unsent === source.next) this.#give(stream, []);
    this.send();
  }

  send(): void {
    const { source } = this.#deps;
    if (!this.#isAnswerDue) this.#lastSignMs = performance.now();
    while (this.#maySend() && this.#unsent < source.next) {
      const stream = this.#stream as RecordStream;
      const entries = source.fromMemory(this.#unsent);
      if (entries === undefined) {
        void this.#sendFromDisk(stream, this.#unsent);
        return;
      }
      this.#give(stream, entries);
    }
  }

  giveUpIfStalled(): void {
    const { stallTimeoutMs, onStall } = this.#deps;
    if (!this.#isAnswerDue || performance.now() - this.#lastSignMs < stallTimeoutMs) return;
    this.#stream?.cancel();
    onStall();
    this.#onLost(new DomainError("audit_unavailable", "The stream gave no answer"));
  }

  close(): void {
    if (this.#state.kind === "waiting") clearTimeout(this.#state.retryTimer);
    this.#stream?.cancel();
    this.#state = { kind: "closed" };
  }

  #maySend(): boolean {
    const state = this.#state;
    return state.kind === "streaming" || (state.kind === "connecting" && !state.hasSent);
  }

  #give(stream: RecordStream, entries: SequencedEntry[]): void {
    this.#unsent += entries.length;
    const isBackedUp = !stream.send({ producerId: this.#deps.producerId, entries });
    if (this.#state.kind === "connecting") this.#state = { ...this.#state, hasSent: true, isBackedUp };
    else if (isBackedUp) this.#state = { kind: "backed_up", stream };
  }

  async #sendFromDisk(stream: RecordStream, from: number): Promise<void> {
    const { source } = this.#deps;
    if (this.#isReadingDisk) return;
    this.#isReadingDisk = true;
    const entries = await source.fromDisk(from);
    this.#isReadingDisk = false;
    const isStill = stream === this.#stream && from === this.#unsent && from >= source.first;
    if (!isStill) return this.send();
    if (entries === undefined || entries[0]?.sequence !== from) {
      // Sequences of a stream are consecutive, so damage needs a new one.
      if (entries !== undefined) source.skip(entries[0]?.sequence);
      stream.cancel();
      return this.#onLost(undefined);
    }
    this.#give(stream, entries);
    this.send();
  }

  #onAcknowledged(sequence: number): void {
    const { logger, source, onAcknowledged } = this.#deps;
    this.#lastSignMs = performance.now();
    if (this.#state.kind === "connecting") {
      const wasDown = this.#loggedFailure !== undefined && this.#loggedFailure !== "ended";
      if (wasDown) logger.info({ queued: source.next - source.first }, "audit-service answers again");
      const { stream, isBackedUp } = this.#state;
      this.#state = { kind: isBackedUp ? "backed_up" : "streaming", stream };
      this.#failures = 0;
      this.#loggedFailure = undefined;
    }
    // Only entries of this stream can have been committed.
    onAcknowledged(Math.min(sequence, this.#unsent - 1));
    this.send();
  }

  #onDrain(): void {
    if (this.#state.kind === "connecting") this.#state = { ...this.#state, isBackedUp: false };
    else if (this.#state.kind === "backed_up") this.#state = { ...this.#state, kind: "streaming" };
    this.send();
  }

  #onLost(error: DomainError | undefined): void {
    const { logger, random, reconnects, source } = this.#deps;
    if (this.#isAnswered) this.#downSinceMs = performance.now();
    this.#failures += 1;
    reconnects.inc();
    // Logged at the first failure and when the reason changes.
    const reason = error?.code ?? "ended";
    if (reason !== this.#loggedFailure && error !== undefined) {
      const queued = source.next - source.first;
      logger.warn({ err: error, queued }, "the audit stream failed; it is opened again");
    }
    this.#loggedFailure = reason;
    const retryTimer = setTimeout(() => this.open(), retryDelayMs(this.#failures, random())).unref();
    this.#state = { kind: "waiting", retryTimer };
  }
}
