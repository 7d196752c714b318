import type { ClientReadableStream } from "@grpc/grpc-js";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { openServerStream } from "#kit/rpc/rpc-client.ts";
import { fromRpcError } from "#kit/rpc/rpc-errors.ts";
import { backOffMs } from "#kit/values/back-off.ts";
import type { ErrorCode } from "#kit/values/errors.ts";
import type {
  PartState,
  TokenServiceClient,
  WatchRevocationsRequest,
  WatchRevocationsResponse,
} from "#proto/gatehouse/token/v1/token_service.ts";
import type { RevocationSet } from "./revocation-set.ts";
import { SLOTS, slotOfSession } from "./session-slot.ts";
import { type TokenRules, toTokenRules } from "./token-rules.ts";

/** Of pino and others. */
export interface VerifierLogger {
  debug(facts: object, text: string): void;
  warn(facts: object, text: string): void;
  error(text: string): void;
}

export interface RevocationWatchOptions {
  client: TokenServiceClient;
  revoked: RevocationSet;
  logger: VerifierLogger;
  onKeyBanned?: ((keyId: string) => void) | undefined;
  /** Called with the accepted keys at first and after each change. */
  onKeys?: ((keyIds: ReadonlySet<string>) => void) | undefined;
}

/** After this silence, unknown revocations may exist. */
const STALE_AFTER_MS = 3_000;
/** Longest life of an access token, clock skew included. */
export const MAX_KEEP_MS = 3_610_000;
const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 1_000;
/** Several server heartbeats (500 ms). */
export const SILENCE_MS = 2_000;
const HEARTBEAT_MS = 500;
/** A slow connection start counts as lag for the life of a stream. */
const MAX_MESSAGE_AGE_MS = 2_000;
/** For a token of an unknown key: a stream that lags as much as it may reports the next read this late. Memory is trusted longer. */
export const KEY_WAIT_MS = MAX_MESSAGE_AGE_MS + HEARTBEAT_MS;
/** A read further in the future proves that this machine was suspended. */
const MAX_MESSAGE_AHEAD_MS = 1_000;
const WALL_CLOCK_ROOM_MS = 2_000;

const ALL_SLOTS = new Uint8Array(SLOTS / 8).fill(0xff);
const NO_SLOTS = new Uint8Array(SLOTS / 8);

/** Of one log: when it was read, as far as this process knows. */
class LogRead {
  /** A lower bound, by the monotonic clock. */
  atMs = Number.NEGATIVE_INFINITY;
  heardAtWallMs = 0;
  /** Whose sessions it has at that read. */
  slots: Uint8Array;
  /** Said with a part of a backlog. They count with the read that ends it. */
  nextSlots: Uint8Array | undefined;

  constructor(slots: Uint8Array) {
    this.slots = slots;
  }

  get lagMs(): number {
    return performance.now() - this.atMs;
  }

  get isRecent(): boolean {
    if (this.lagMs > STALE_AFTER_MS) return false;
    // The monotonic clock stops during a suspend.
    return Date.now() - this.heardAtWallMs <= STALE_AFTER_MS + WALL_CLOCK_ROOM_MS;
  }
}

export class RevocationWatch {
  readonly #options: RevocationWatchOptions;
  #position = { sequence: 0, tip: "" };
  #openedAtMs = 0;
  /** Of part 0, which has the keys; of all users, where there are no parts. */
  readonly #first = new LogRead(ALL_SLOTS);
  readonly #reads = new Map([[0, this.#first]]);
  /** Of the newest message, whatever it says; before the first one, of the start. */
  #messageAtMs = performance.now();
  #serverReadAtMs: number | undefined;
  #leastKeptMs = MAX_KEEP_MS;
  #isIncomplete = false;
  #isClosed = false;
  #isFirstMessage = true;
  #breaks = 0;
  /** The code of the last break, until a message comes. */
  #brokenBy: ErrorCode | null = null;
  #rules: TokenRules | undefined;
  #stream: ClientReadableStream<WatchRevocationsResponse> | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #waiting = new Set<() => void>();

  constructor(options: RevocationWatchOptions) {
    this.#options = options;
    this.#open();
  }

  /**
   * Whether every revocation older than 3 s is known, and understood, that may concern a session.
   * @param sessionId of a user. Undefined: a credential of a client.
   */
  isFreshFor(sessionId: string | undefined): boolean {
    if (!this.isHeard || this.#isIncomplete) return false;
    if (sessionId === undefined) return true;
    const slot = slotOfSession(sessionId);
    for (const read of this.#reads.values())
      if (hasSlot(read.slots, slot) && (read === this.#first || read.isRecent)) return true;
    return false;
  }

  /** Whether all messages older than 3 s have come, of keys and of clients. */
  get isHeard(): boolean {
    return this.#first.isRecent;
  }

  /** Whether the stream has said nothing for two seconds. Shorter pauses are those of a slow service, or of a restart. */
  get isSilent(): boolean {
    return performance.now() - this.#messageAtMs > SILENCE_MS;
  }

  get lagMs(): number {
    return this.#first.lagMs;
  }

  /**
   * For how long a revocation is surely remembered. While token-service's replicas are set to another life of a token, tokens of the longer
   * one are in memory beside revocations of the shorter one.
   */
  get leastKeptMs(): number {
    return this.#leastKeptMs;
  }

  /** Undefined while unknown, or if token-service is too old. */
  get rules(): TokenRules | undefined {
    return this.isHeard ? this.#rules : undefined;
  }

  /** Time of token-service, at most 3 s ahead. Undefined in silence. */
  get serverNowMs(): number | undefined {
    return this.isHeard ? this.#serverTimeMs : undefined;
  }

  /** As `serverNowMs`; in silence the time of this machine if that is later, because the monotonic clock stops during a suspend. */
  get nowMs(): number {
    return this.serverNowMs ?? Math.max(this.#serverTimeMs ?? Number.NEGATIVE_INFINITY, Date.now());
  }

  get #serverTimeMs(): number | undefined {
    return this.#serverReadAtMs === undefined ? undefined : this.#serverReadAtMs + this.lagMs;
  }

  /** True after a read that began after this call, false after the timeout. */
  readAgain(timeoutMs: number): Promise<boolean> {
    const sinceMs = performance.now();
    return new Promise((resolve) => {
      const end = (isRead: boolean) => {
        this.#waiting.delete(look);
        clearTimeout(timer);
        resolve(isRead);
      };
      const look = () => {
        if (this.#first.atMs >= sinceMs) end(true);
      };
      const timer = setTimeout(() => end(false), timeoutMs);
      this.#waiting.add(look);
    });
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#stream?.cancel();
  }

  #open(): void {
    const { sequence, tip } = this.#position;
    const request: WatchRevocationsRequest = { afterSequence: sequence, tip };
    const { client } = this.#options;
    this.#openedAtMs = performance.now();
    this.#isFirstMessage = true;
    const stream = openServerStream(client, client.watchRevocations, request, newCallContext());
    this.#stream = stream;
    let hasEnded = false;
    const reopen = () => {
      if (hasEnded) return;
      hasEnded = true;
      stream.cancel();
      this.#reopenLater();
    };
    this.#watchSilence(reopen);
    stream.on("data", (message: WatchRevocationsResponse) => {
      if (hasEnded) return;
      this.#messageAtMs = performance.now();
      if (!this.#apply(message)) {
        reopen();
        return;
      }
      this.#breaks = 0;
      this.#brokenBy = null;
      this.#watchSilence(reopen);
    });
    stream.on("end", reopen);
    stream.on("error", (error) => {
      if (!this.#isClosed && !hasEnded) this.#logBreak(error);
      reopen();
    });
  }

  /** As a warning only what is new: it goes on once a second at most. */
  #logBreak(error: Error): void {
    const { logger } = this.#options;
    const { code } = fromRpcError(error);
    const isNew = code !== this.#brokenBy;
    this.#brokenBy = code;
    if (!isNew) logger.debug({ err: error }, "the revocation stream broke again");
    else if (code === "caller_not_allowed")
      logger.warn({ err: error }, "token-service refuses this service: add its name to VERIFIERS");
    else logger.warn({ err: error }, "the revocation stream broke");
  }

  #watchSilence(reopen: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(reopen, SILENCE_MS);
    this.#timer.unref();
  }

  #reopenLater(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#breaks += 1;
    const pauseMs = backOffMs({
      attempt: this.#breaks,
      firstMs: RECONNECT_MIN_MS,
      maxMs: RECONNECT_MAX_MS,
      random: Math.random(),
    });
    this.#timer = setTimeout(() => this.#open(), pauseMs);
    this.#timer.unref();
  }

  #apply(message: WatchRevocationsResponse): boolean {
    const receivedMs = performance.now();
    this.#takeRevocations(message, receivedMs);
    this.#takeRules(message);
    this.#position = { sequence: message.sequence, tip: message.tip };
    const { part } = message;
    const { caughtUp, elapsedMs, readAt } = part ?? message;
    const read = this.#readOf(part);
    if (!caughtUp) return true;
    // The read was not earlier, because the stream began after this request.
    const readAtMs = this.#openedAtMs + elapsedMs;
    if (readAtMs > receivedMs + MAX_MESSAGE_AHEAD_MS) return false;
    if (readAtMs >= read.atMs) {
      read.atMs = Math.min(readAtMs, receivedMs);
      read.heardAtWallMs = Date.now();
      read.slots = read.nextSlots ?? read.slots;
      if (read === this.#first) this.#serverReadAtMs = readAt?.getTime();
    }
    for (const look of [...this.#waiting]) look();
    return receivedMs - readAtMs <= MAX_MESSAGE_AGE_MS;
  }

  #readOf(part: PartState | undefined): LogRead {
    if (part === undefined) {
      for (const number of this.#reads.keys()) if (number !== 0) this.#reads.delete(number);
      this.#first.nextSlots = ALL_SLOTS;
      return this.#first;
    }
    const read = this.#reads.get(part.number) ?? new LogRead(NO_SLOTS);
    this.#reads.set(part.number, read);
    if (part.slots.length > 0) read.nextSlots = part.slots;
    return read;
  }

  #takeRevocations({ revocations, keepS }: WatchRevocationsResponse, receivedMs: number): void {
    const { revoked, onKeyBanned } = this.#options;
    revoked.forgetEnded(receivedMs);
    const leastMs = keepS === 0 ? MAX_KEEP_MS : keepS * 1_000;
    this.#leastKeptMs = Math.min(this.#leastKeptMs, leastMs);
    for (const { target, expiresAt } of revocations) {
      // The wall clock may only extend this.
      const remainingMs = (expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) - Date.now();
      const untilMs = receivedMs + Math.max(leastMs, Math.min(remainingMs, MAX_KEEP_MS));
      if (target?.$case === "sessionId") {
        revoked.addSession(target.value, untilMs);
      } else if (target?.$case === "keyId") {
        revoked.addKey(target.value, untilMs);
        onKeyBanned?.(target.value);
      } else {
        this.#distrust();
      }
    }
  }

  #takeRules({ rules }: WatchRevocationsResponse): void {
    const isFirst = this.#isFirstMessage;
    this.#isFirstMessage = false;
    if (rules === undefined && !isFirst) return;
    const before = this.#rules;
    this.#rules = rules === undefined ? undefined : toTokenRules(rules);
    if (this.#rules === undefined) return;
    const keyIds = new Set(this.#rules.keys.keys());
    const isKnown = before?.keys.size === keyIds.size && [...keyIds].every((keyId) => before.keys.has(keyId));
    if (!isKnown) this.#options.onKeys?.(keyIds);
  }

  /** Unknown targets cannot be checked: token-service must verify every token. */
  #distrust(): void {
    if (!this.#isIncomplete)
      this.#options.logger.error("token-service revokes something this version does not know: update it");
    this.#isIncomplete = true;
  }
}

function hasSlot(slots: Uint8Array, slot: number): boolean {
  return ((slots[slot >>> 3] ?? 0) & (0x80 >>> (slot & 7))) !== 0;
}
