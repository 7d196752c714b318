import { type Client, type ServiceError, status } from "@grpc/grpc-js";
import { nextTransport } from "./grpc-js-internals.ts";
import { metadataOf } from "./rpc-metadata.ts";
import {
  type Done,
  type Failure,
  failureWith,
  frameOf,
  type Outcome,
  UnaryAttempt,
} from "./unary-attempt.ts";

export interface UnaryCall {
  /** `/gatehouse.token.v1.TokenService/VerifyToken`. */
  path: string;
  message: Buffer;
  headers: Record<string, string>;
  /** Milliseconds of `Date.now()`. */
  deadlineMs: number;
}

interface UnaryOptions {
  authority: string;
  idempotentMethods: readonly string[];
  /** Of gRFC A6: twice the repetitions at once. */
  maxTokens: number;
}

interface OpenCall extends UnaryCall {
  done: Done;
  deadline: NodeJS.Timeout;
  retry?: NodeJS.Timeout;
  attempts: number;
  wasRefused: boolean;
  cancel?: ((failure: Failure) => void) | undefined;
}

const MAX_ATTEMPTS = 2;
const MAX_RETRY_WAIT_MS = 20;
const MAX_TIMER_MS = 2 ** 31 - 1;
/** Of a call that succeeds (gRFC A6). */
const TOKENS = 0.1;
const CLOSED = failureWith(status.UNAVAILABLE, "Channel closed");
const same = (message: Buffer) => message;

/**
 * Unary calls on the connections of a client of grpc-js, which has the addresses, TLS, pings and their turns. Its own way to
 * make a call costs more than twice the CPU. Only a call for which no connection is ready goes that way, and waits or fails there.
 */
export class UnaryCalls {
  readonly #client: Client;
  readonly #maxTokens: number;
  readonly #idempotent: ReadonlySet<string>;
  readonly #fixedHeaders: Record<string, string>;
  readonly #open = new Set<OpenCall>();
  #tokens: number;
  #isClosed = false;

  constructor(client: Client, { authority, idempotentMethods, maxTokens }: UnaryOptions) {
    this.#client = client;
    this.#maxTokens = maxTokens;
    this.#tokens = maxTokens;
    this.#idempotent = new Set(idempotentMethods.map((name) => `/${name}`));
    this.#fixedHeaders = {
      ":method": "POST",
      ":scheme": "https",
      ":authority": authority,
      te: "trailers",
      "content-type": "application/grpc",
      "user-agent": "gatehouse",
    };
  }

  /** @param done called once, and not by this method. */
  start(call: UnaryCall, done: Done): void {
    const leftMs = Math.min(Math.max(call.deadlineMs - Date.now(), 0), MAX_TIMER_MS);
    const expire = () => this.#settle(open, failureWith(status.DEADLINE_EXCEEDED, "Deadline exceeded"));
    const open: OpenCall = {
      ...call,
      done,
      deadline: setTimeout(expire, leftMs),
      attempts: 0,
      wasRefused: false,
    };
    this.#open.add(open);
    if (this.#isClosed) setImmediate(() => this.#settle(open, CLOSED));
    else if (leftMs > 0) this.#send(open);
  }

  /** Fails the calls that are open. */
  close(): void {
    this.#isClosed = true;
    for (const call of this.#open) this.#settle(call, CLOSED);
  }

  #send(call: OpenCall): void {
    call.attempts += 1;
    if (!this.#sendNow(call)) this.#sendByGrpc(call);
  }

  /** @returns false if no connection is ready. */
  #sendNow(call: OpenCall): boolean {
    const transport = nextTransport(this.#client);
    if (transport === undefined) return false;
    const headers = {
      ...this.#fixedHeaders,
      ":path": call.path,
      "grpc-timeout": timeoutUntil(call.deadlineMs),
      ...call.headers,
    };
    let attempt: UnaryAttempt;
    try {
      attempt = new UnaryAttempt(transport.session, headers, frameOf(call.message), (outcome) => {
        transport.removeActiveCall(attempt);
        this.#onEnd(call, outcome);
      });
    } catch {
      return false; // The session takes no request any more, or a header cannot be sent: grpc-js finds out which.
    }
    transport.addActiveCall(attempt);
    call.cancel = (failure) => attempt.cancel(failure);
    return true;
  }

  #sendByGrpc(call: OpenCall): void {
    const options = { deadline: call.deadlineMs };
    let isAnswered = false;
    const onAnswer = (error: ServiceError | null, message?: Buffer) =>
      this.#onEnd(call, error === null ? (message ?? Buffer.alloc(0)) : { ...statusOf(error), isAnswered });
    const sent = this.#client.makeUnaryRequest(
      call.path,
      same,
      same,
      call.message,
      metadataOf(call.headers),
      options,
      onAnswer,
    );
    sent.once("metadata", () => {
      isAnswered = true;
    });
    call.cancel = () => sent.cancel();
  }

  #onEnd(call: OpenCall, outcome: Outcome): void {
    if (!this.#open.has(call)) return;
    call.cancel = undefined;
    if (Buffer.isBuffer(outcome)) {
      this.#tokens = Math.min(this.#tokens + TOKENS, this.#maxTokens);
      this.#settle(call, outcome);
    } else if (outcome.isRefused === true && !call.wasRefused) {
      call.wasRefused = true;
      call.attempts -= 1;
      this.#send(call);
    } else if (this.#mayRepeat(call, outcome)) {
      call.headers["grpc-previous-rpc-attempts"] = String(call.attempts);
      call.retry = setTimeout(() => this.#send(call), Math.random() * MAX_RETRY_WAIT_MS);
    } else {
      this.#settle(call, outcome);
    }
  }

  #mayRepeat({ path, attempts }: OpenCall, { code, isAnswered }: Failure): boolean {
    if (!this.#idempotent.has(path) || code !== status.UNAVAILABLE || isAnswered === true) return false;
    this.#tokens = Math.max(this.#tokens - 1, 0);
    return attempts < MAX_ATTEMPTS && this.#tokens > this.#maxTokens / 2;
  }

  #settle(call: OpenCall, outcome: Outcome): void {
    this.#open.delete(call);
    clearTimeout(call.deadline);
    clearTimeout(call.retry);
    if (!Buffer.isBuffer(outcome)) call.cancel?.(outcome);
    call.done(outcome);
  }
}

const statusOf = ({ code, details, metadata }: ServiceError): Failure => ({ code, details, metadata });

/** With at most eight digits. */
function timeoutUntil(deadlineMs: number): string {
  const leftMs = Math.max(Math.ceil(deadlineMs - Date.now()), 1);
  return leftMs < 1e8 ? `${leftMs}m` : `${Math.ceil(leftMs / 1_000)}S`;
}
