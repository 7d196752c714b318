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

/** Silence for this long means that revocations may exist that this process has not heard of. */
export const STALE_AFTER_MS = 3_000;
const RECONNECT_MIN_MS = 50;
const RECONNECT_MAX_MS = 1_000;
/** A little over the server's heartbeat of 500 ms, several times: then the stream is opened anew. */
const SILENCE_MS = 2_000;

/** Keeps a `RevocationSet` up to date over `WatchRevocations`, resuming by number after each break. */
export class RevocationWatch {
  readonly #client: TokenServiceClient;
  readonly #revoked: RevocationSet;
  readonly #logger: Logger;
  #sequence = 0;
  #heardAtMs = Number.NEGATIVE_INFINITY;
  #hasKnownAll = false;
  #isIncomplete = false;
  #isClosed = false;
  #pauseMs = RECONNECT_MIN_MS;
  #stream: ClientReadableStream<WatchRevocationsResponse> | undefined;
  #timer: NodeJS.Timeout | undefined;

  constructor(client: TokenServiceClient, revoked: RevocationSet, logger: Logger) {
    this.#client = client;
    this.#revoked = revoked;
    this.#logger = logger;
    this.#open();
  }

  /** Whether everything revoked more than 3 s ago is known here, by the monotonic clock. */
  get isFresh(): boolean {
    return this.#hasKnownAll && !this.#isIncomplete && this.lagMs <= STALE_AFTER_MS;
  }

  /** Milliseconds since token-service was last heard. */
  get lagMs(): number {
    return performance.now() - this.#heardAtMs;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#stream?.cancel();
  }

  #open(): void {
    const request: WatchRevocationsRequest = { afterSequence: this.#sequence, tip: "" };
    const stream = openServerStream(this.#client, this.#client.watchRevocations, request, newCallContext());
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
      this.#apply(message);
      this.#pauseMs = RECONNECT_MIN_MS;
      this.#watchSilence(reopen);
    });
    stream.on("end", reopen);
    stream.on("error", (error) => {
      if (!this.#isClosed && !hasEnded) this.#logger.debug({ err: error }, "the revocation stream broke");
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

  #apply(message: WatchRevocationsResponse): void {
    const receivedMs = performance.now();
    for (const { target, expiresAt } of message.revocations) {
      const untilMs = expiresAt?.getTime() ?? Number.POSITIVE_INFINITY;
      if (target?.$case === "sessionId") this.#revoked.addSession(target.value, untilMs);
      else if (target?.$case === "keyId") this.#revoked.addKey(target.value, untilMs);
      else this.#distrust();
    }
    this.#revoked.forgetEnded(Date.now());
    this.#sequence = message.sequence;
    if (!message.caughtUp) return;
    this.#hasKnownAll = true;
    this.#heardAtMs = receivedMs;
  }

  /** What a target of an unknown kind forbids cannot be told from memory: every token is asked for from now on. */
  #distrust(): void {
    if (!this.#isIncomplete)
      this.#logger.error("token-service revokes something this version does not know: update it");
    this.#isIncomplete = true;
  }
}
