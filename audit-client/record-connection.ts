import type { SequencedEntry } from "../proto/gen/gatehouse/audit/v1/audit_service.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { RecordStream, RecordStreamHandlers } from "./record-stream.ts";
import { retryDelayMs } from "./retry-delay.ts";

/** The unacknowledged entries of a process, in the order of their sequences. */
export interface EntrySource {
  /** The oldest entry; `next` if there is none. */
  readonly first: number;
  /** The sequence that the next new entry gets. */
  readonly next: number;
  /** Entries from this sequence on; undefined if they are on the disk. */
  fromMemory(sequence: number): SequencedEntry[] | undefined;
  /** The same from the disk. The first is a later one if there is damage. @returns undefined if the disk fails. */
  fromDisk(sequence: number): Promise<SequencedEntry[] | undefined>;
  /** Leaves out damaged entries. @param to the next one that can be read; undefined if there is none. */
  skip(to: number | undefined): void;
}

export interface RecordConnectionDeps {
  openStream: (handlers: RecordStreamHandlers) => RecordStream;
  /** Called when a stream gave no answer: its connection may be dead without knowing it. */
  onStall: () => void;
  /** Everything up to this sequence is committed. */
  onAcknowledged: (upTo: number) => void;
  source: EntrySource;
  /** UUID, another one in each process start. */
  producerId: string;
  /** 0 to 1. */
  random: () => number;
  /** A stream that has not answered for so long, while an answer is due, is given up. */
  stallTimeoutMs: number;
  reconnects: { inc(): void };
  logger: Logger;
}

type State =
  /** For the next attempt. */
  | { kind: "waiting"; retryTimer: NodeJS.Timeout }
  /** No answer yet: the stream gets one message, since a stream that fails should cost no more than that. */
  | { kind: "connecting"; stream: RecordStream; hasSent: boolean; isBackedUp: boolean }
  | { kind: "streaming"; stream: RecordStream }
  /** The stream takes no more until it drains. */
  | { kind: "backed_up"; stream: RecordStream }
  | { kind: "closed" };

/**
 * Keeps one stream to audit-service open and sends the unacknowledged entries over it, in order. A new stream begins with the
 * oldest of them: audit-service stores each once.
 */
export class RecordConnection {
  readonly #deps: RecordConnectionDeps;
  #state: State = { kind: "closed" };
  /** The first sequence that the present stream has not been given. */
  #unsent = 1;
  #isReadingDisk = false;
  /** When the present stream last gave a sign, or last had no answer due. Monotonic, in milliseconds. */
  #lastSignMs = 0;
  /** Since when no stream has brought an answer. */
  #downSinceMs = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #loggedFailure: string | undefined;

  constructor(deps: RecordConnectionDeps) {
    this.#deps = deps;
  }

  /** The first sequence that was not sent. */
  get unsent(): number {
    return this.#unsent;
  }

  /** How long no stream has brought an answer; 0 while one does. */
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
    // Nothing to send: an empty message is answered too, and tells whether the peer listens.
    if (this.#unsent === source.next) this.#give(stream, []);
    this.send();
  }

  /** Sends what the stream takes. */
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

  /** Gives up a stream that owes an answer and has given no sign for too long. */
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
      // The sequences of one stream are consecutive: what follows on damage goes over another one.
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
    // Not more than this stream was given: nothing else can have been committed.
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
    // One line when it begins and when the reason changes, not one for each attempt.
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
