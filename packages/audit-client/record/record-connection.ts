import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { SequencedEntry } from "#proto/gatehouse/audit/v1/audit_service.ts";
import { type RecordStream, type RecordStreamHandlers, retryDelayMs } from "../stream/record-stream.ts";

export interface EntrySource {
  readonly first: number;
  readonly next: number;
  /** Undefined if the entry is on the disk. */
  fromMemory(sequence: number): SequencedEntry[] | undefined;
  /** Starts later after damage. Undefined if the disk fails. */
  fromDisk(sequence: number): Promise<SequencedEntry[] | undefined>;
  /** @param to The next readable entry. */
  skip(to: number | undefined): void;
}

export interface RecordConnectionDeps {
  openStream: (handlers: RecordStreamHandlers) => RecordStream;
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
  /** Only one message is sent before the first answer. */
  | { kind: "connecting"; stream: RecordStream; hasSent: boolean; isBackedUp: boolean }
  | { kind: "streaming"; stream: RecordStream }
  | { kind: "backed_up"; stream: RecordStream }
  | { kind: "closed" };

/** A new stream repeats all unacknowledged entries. audit-service stores each once. */
export class RecordConnection {
  readonly #deps: RecordConnectionDeps;
  #state: State = { kind: "closed" };
  #unsent = 1;
  #isReadingDisk = false;
  /** Monotonic milliseconds of the last answer, or of the last time when none was due. */
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

  get isConnecting(): boolean {
    return this.#state.kind === "connecting";
  }

  get #isAnswered(): boolean {
    return this.#state.kind === "streaming" || this.#state.kind === "backed_up";
  }

  get #stream(): RecordStream | undefined {
    return "stream" in this.#state ? this.#state.stream : undefined;
  }

  get #isAnswerDue(): boolean {
    return this.isConnecting || (this.#isAnswered && this.#unsent > this.#deps.source.first);
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
    // An empty message is answered too, which tests the stream.
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
    this.#onLost(new DomainError("audit_unavailable", "The stream did not answer"));
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
      // Sequences of a stream are consecutive.
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
    const reason = error?.code ?? "ended";
    if (reason !== this.#loggedFailure && error !== undefined) {
      const queued = source.next - source.first;
      logger.warn({ err: error, queued }, "the audit stream failed and will be reopened");
    }
    this.#loggedFailure = reason;
    const retryTimer = setTimeout(() => this.open(), retryDelayMs(this.#failures, random())).unref();
    this.#state = { kind: "waiting", retryTimer };
  }
}
