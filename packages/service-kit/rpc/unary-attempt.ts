import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type IncomingHttpHeaders,
} from "node:http2";
import { Metadata, type StatusObject, status } from "@grpc/grpc-js";

/** @see https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md */

export interface Failure extends StatusObject {
  /** By HTTP/2: the peer has not begun it. */
  isRefused?: boolean;
  /** The peer has begun to answer, so that the call is not repeated. */
  isAnswered?: boolean;
}

/** The message of the response, or why there is none. */
export type Outcome = Buffer | Failure;
export type Done = (outcome: Outcome) => void;

const PREFIX_BYTES = 5;
const MAX_RESPONSE_BYTES = 4 * 1024 * 1024;

export function failureWith(code: status, details: string): Failure {
  return { code, details, metadata: new Metadata() };
}

/** Uncompressed, behind its length. */
export function frameOf(message: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  frame[0] = 0;
  frame.writeUInt32BE(message.length, 1);
  frame.set(message, PREFIX_BYTES);
  return frame;
}

/** One request on a session that is ready. */
export class UnaryAttempt {
  readonly #session: ClientHttp2Session;
  readonly #stream: ClientHttp2Stream;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #headers: IncomingHttpHeaders | undefined;
  #trailers: IncomingHttpHeaders | undefined;
  #done: Done | undefined;

  /** @param done called once, and never by the constructor. */
  constructor(session: ClientHttp2Session, headers: Record<string, string>, frame: Buffer, done: Done) {
    const stream = session.request(headers);
    this.#session = session;
    this.#stream = stream;
    this.#done = done;
    stream.on("response", (received, flags) => {
      this.#headers = received;
      if ((flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0) this.#trailers = received;
    });
    stream.on("trailers", (received) => {
      this.#trailers = received;
    });
    stream.on("data", (chunk: Buffer) => this.#add(chunk));
    // What an error means is known at the end of the stream, which follows it.
    stream.on("error", () => undefined);
    stream.on("close", () => this.#finish(this.#outcome()));
    // In the same tick as the headers, so that both are one write.
    stream.end(frame);
  }

  cancel(failure: Failure): void {
    this.#finish(failure);
    this.#stream.close(constants.NGHTTP2_CANCEL);
  }

  /** By grpc-js, when the connection is lost. The call may end by itself in this turn. */
  onDisconnect(): void {
    setImmediate(() => this.#finish(this.#dropped()));
  }

  #add(chunk: Buffer): void {
    this.#bytes += chunk.length;
    if (this.#bytes <= PREFIX_BYTES + MAX_RESPONSE_BYTES) this.#chunks.push(chunk);
    else this.cancel(failureWith(status.RESOURCE_EXHAUSTED, `Over ${MAX_RESPONSE_BYTES} bytes`));
  }

  #outcome(): Outcome {
    const trailers = this.#trailers;
    if (trailers === undefined) return this.#broken();
    const failure = failureIn(trailers, this.#headers);
    if (failure !== undefined) return { ...failure, isAnswered: this.#headers !== trailers };
    const [first] = this.#chunks;
    const body = first !== undefined && this.#chunks.length === 1 ? first : Buffer.concat(this.#chunks);
    const isMessage =
      body.length >= PREFIX_BYTES && body[0] === 0 && body.readUInt32BE(1) === body.length - PREFIX_BYTES;
    if (isMessage) return body.subarray(PREFIX_BYTES);
    return failureWith(status.INTERNAL, "The response is not one uncompressed message");
  }

  #broken(): Failure {
    if (this.#session.destroyed) return this.#dropped();
    const { rstCode = constants.NGHTTP2_NO_ERROR } = this.#stream;
    if (rstCode === constants.NGHTTP2_REFUSED_STREAM) {
      return { ...failureWith(status.UNAVAILABLE, "Stream refused by server"), isRefused: true };
    }
    const code = CODE_OF_RESET.get(rstCode) ?? status.INTERNAL;
    const reset = failureWith(code, `Received RST_STREAM with code ${rstCode}`);
    return { ...(failureOfHttp(this.#headers) ?? reset), isAnswered: this.#headers !== undefined };
  }

  /** The call may be repeated even if its answer had begun, because the caller has seen nothing of it. */
  #dropped(): Failure {
    return failureWith(status.UNAVAILABLE, "Connection dropped");
  }

  #finish(outcome: Outcome): void {
    const done = this.#done;
    this.#done = undefined;
    done?.(outcome);
  }
}

const CODE_OF_RESET: ReadonlyMap<number, status> = new Map([
  [constants.NGHTTP2_CANCEL, status.CANCELLED],
  [constants.NGHTTP2_ENHANCE_YOUR_CALM, status.RESOURCE_EXHAUSTED],
  [constants.NGHTTP2_INADEQUATE_SECURITY, status.PERMISSION_DENIED],
]);

/** @returns undefined for status OK. */
function failureIn(
  trailers: IncomingHttpHeaders,
  headers: IncomingHttpHeaders | undefined,
): Failure | undefined {
  const { "grpc-status": value, "grpc-message": text } = trailers;
  if (value === "0") return undefined;
  if (value === undefined) {
    return failureOfHttp(headers) ?? failureWith(status.UNKNOWN, "The response has no status");
  }
  const code = Number(value);
  return {
    code: status[code] === undefined ? status.UNKNOWN : code,
    details: typeof text === "string" ? percentDecoded(text) : "",
    metadata: metadataIn(trailers),
  };
}

/** @see https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md */
const CODE_OF_HTTP: ReadonlyMap<number, status> = new Map([
  [400, status.INTERNAL],
  [401, status.UNAUTHENTICATED],
  [403, status.PERMISSION_DENIED],
  [404, status.UNIMPLEMENTED],
  [429, status.UNAVAILABLE],
  [502, status.UNAVAILABLE],
  [503, status.UNAVAILABLE],
  [504, status.UNAVAILABLE],
]);

function failureOfHttp(headers: IncomingHttpHeaders | undefined): Failure | undefined {
  const http = headers?.[":status"] as number | undefined;
  if (http === undefined || http === constants.HTTP_STATUS_OK) return undefined;
  return failureWith(CODE_OF_HTTP.get(http) ?? status.UNKNOWN, `Received HTTP status code ${http}`);
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function metadataIn(headers: IncomingHttpHeaders): Metadata {
  try {
    return Metadata.fromHttp2Headers(headers);
  } catch {
    return new Metadata();
  }
}
