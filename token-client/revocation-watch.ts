import type { ClientReadableStream } from "@grpc/grpc-js";
import type {
  TokenServiceClient,
  WatchRevocationsRequest,
  WatchRevocationsResponse,
} from "../proto/gen/gatehouse/token/v1/token_service.ts";
import { newCallContext } from "../service-kit/call-context.ts";
import type { Logger } from "../service-kit/logger.ts";
import { openServerStream } from "../service-kit/rpc-client.ts";
import type { RevocationSet } from "./revocation-set.ts";
import { type TokenRules, toTokenRules } from "./token-rules.ts";

export interface RevocationWatchOptions {
  client: TokenServiceClient;
  revoked: RevocationSet;
  logger: Logger;
  /** Called for each key that is banned. */
  onKeyBanned?: ((keyId: string) => void) | undefined;
  /** Called with the keys whose tokens may be accepted, at first and whenever they change. */
  onKeys?: ((keyIds: ReadonlySet<string>) => void) | undefined;
}

/** Silence for this long means that revocations may exist that this process has not heard of. */
export const STALE_AFTER_MS = 3_000;
/** No access token lives longer, and no clock differs by more: token-service's configuration ends there. */
export const MAX_KEEP_MS = 3_610_000;
const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 1_000;
/** A little over the server's heartbeat of 500 ms, several times: then the stream is opened anew. */
const SILENCE_MS = 2_000;
/**
 * Beyond this age of a message the stream is opened anew: its connection may have been slow to open, which counts for as
 * long as the stream lasts.
 */
const MAX_MESSAGE_AGE_MS = 2_000;
/** A message that tells of a read so far ahead is no proof: this machine was suspended. */
const MAX_MESSAGE_AHEAD_MS = 1_000;
/** How far the wall clock may run ahead of the monotonic one within a heartbeat or two. */
const WALL_CLOCK_ROOM_MS = 2_000;

/** Keeps a `RevocationSet` up to date over `WatchRevocations`, resuming by number and tip after each break. */
export class RevocationWatch {
  readonly #options: RevocationWatchOptions;
  #position = { sequence: 0, tip: "" };
  #openedAtMs = 0;
  /** A lower bound of when the server made the last read after which this watch was up to date. By the monotonic clock. */
  #readAtMs = Number.NEGATIVE_INFINITY;
  #heardAtWallMs = 0;
  /** token-service's time at that read. */
  #serverReadAtMs: number | undefined;
  #isIncomplete = false;
  #isClosed = false;
  #isFirstMessage = true;
  #pauseMs = RECONNECT_MIN_MS;
  #rules: TokenRules | undefined;
  #stream: ClientReadableStream<WatchRevocationsResponse> | undefined;
  #timer: NodeJS.Timeout | undefined;
  readonly #waiting = new Set<() => void>();

  constructor(options: RevocationWatchOptions) {
    this.#options = options;
    this.#open();
  }

  /** Whether everything revoked more than 3 s ago is known here, by the monotonic clock. */
  get isFresh(): boolean {
    if (this.#isIncomplete || this.lagMs > STALE_AFTER_MS) return false;
    // The monotonic clock stands still while a machine is suspended; the wall clock then jumps ahead.
    return Date.now() - this.#heardAtWallMs <= STALE_AFTER_MS + WALL_CLOCK_ROOM_MS;
  }

  /** Milliseconds since the newest read of the log that this process knows of, at the most. */
  get lagMs(): number {
    return performance.now() - this.#readAtMs;
  }

  /** What tokens look like; undefined while that is not known, or not told by this version of token-service. */
  get rules(): TokenRules | undefined {
    return this.isFresh ? this.#rules : undefined;
  }

  /** token-service's time now, at most 3 s ahead; undefined while that is not known. */
  get serverNowMs(): number | undefined {
    return this.isFresh && this.#serverReadAtMs !== undefined ? this.#serverReadAtMs + this.lagMs : undefined;
  }

  /** Resolves once a read of the log that began after this call is known, with true; or after a time, with false. */
  readAgain(timeoutMs: number): Promise<boolean> {
    const sinceMs = performance.now();
    return new Promise((resolve) => {
      const end = (isRead: boolean) => {
        this.#waiting.delete(look);
        clearTimeout(timer);
        resolve(isRead);
      };
      const look = () => {
        if (this.#readAtMs >= sinceMs) end(true);
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
    const { client, logger } = this.#options;
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
      if (!this.#apply(message)) {
        reopen();
        return;
      }
      this.#pauseMs = RECONNECT_MIN_MS;
      this.#watchSilence(reopen);
    });
    stream.on("end", reopen);
    stream.on("error", (error) => {
      if (!this.#isClosed && !hasEnded) logger.debug({ err: error }, "the revocation stream broke");
      reopen();
    });
  }

  #watchSilence(reopen: () => void): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(reopen, SILENCE_MS);
    this.#timer.unref();
  }

  #reopenLater(): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => this.#open(), this.#pauseMs * (0.8 + Math.random() * 0.4));
    this.#timer.unref();
    this.#pauseMs = Math.min(this.#pauseMs * 2, RECONNECT_MAX_MS);
  }

  /** @returns false if the stream is to be opened anew: what it tells is old, or cannot be. */
  #apply(message: WatchRevocationsResponse): boolean {
    const receivedMs = performance.now();
    this.#takeRevocations(message, receivedMs);
    this.#takeRules(message);
    this.#position = { sequence: message.sequence, tip: message.tip };
    if (!message.caughtUp) return true;
    // The server began the stream after this process asked for it, so the read was at this moment or later.
    const readAtMs = this.#openedAtMs + (message.elapsedMs ?? receivedMs - this.#openedAtMs);
    if (readAtMs > receivedMs + MAX_MESSAGE_AHEAD_MS) return false;
    if (readAtMs >= this.#readAtMs) {
      this.#readAtMs = Math.min(readAtMs, receivedMs);
      this.#serverReadAtMs = message.readAt?.getTime();
      this.#heardAtWallMs = Date.now();
    }
    for (const look of [...this.#waiting]) look();
    return receivedMs - readAtMs <= MAX_MESSAGE_AGE_MS;
  }

  #takeRevocations({ revocations, keepS }: WatchRevocationsResponse, receivedMs: number): void {
    const { revoked, onKeyBanned } = this.#options;
    revoked.forgetEnded(receivedMs);
    const leastMs = keepS === 0 ? MAX_KEEP_MS : keepS * 1_000;
    for (const { target, expiresAt } of revocations) {
      // A wall clock may only make this longer, and not beyond any token's life.
      const toldMs = (expiresAt?.getTime() ?? Number.POSITIVE_INFINITY) - Date.now();
      const untilMs = receivedMs + Math.max(leastMs, Math.min(toldMs, MAX_KEEP_MS));
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

  /** The first message of a stream from a service that tells rules has them. */
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

  /** What a target of an unknown kind forbids cannot be told from memory: every token is asked for from now on. */
  #distrust(): void {
    if (!this.#isIncomplete)
      this.#options.logger.error("token-service revokes something this version does not know: update it");
    this.#isIncomplete = true;
  }
}
