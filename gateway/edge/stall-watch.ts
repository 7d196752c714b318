import type { ServerResponse } from "node:http";
import type { FastifyRequest } from "fastify";
import { DomainError } from "../../service-kit/errors.ts";
import { answerClientError } from "./client-error.ts";

const SWEEP_MS = 1_000;
/** For the whole body of a request that is not forwarded. */
const OWN_BODY_MS = 10_000;
/** What is left of a body that nobody reads any more: its call was answered. */
const LEFT_BODY_MS = 10_000;
/** After so long a body must have come at the route's rate on average. */
const RATE_AFTER_MS = 10_000;
/** An answer of which nothing was taken for so long; after waiting so long in all it must be taken at the route's rate. */
const READER_MS = 30_000;

interface Body {
  request: FastifyRequest;
  startedMs: number;
  firstBytes: number;
  bytes: number;
  /** When the last bytes came. */
  movedMs: number;
  /** How long it was the client that was waited for. */
  waitedMs: number;
  /** When its call was seen to be over. */
  overMs?: number;
}

interface Reader {
  /** Since when it is waited for, if it is. */
  sinceMs: number | undefined;
  waitedMs: number;
  firstBytes: number;
  minBytesPerS: number;
}

/**
 * Cuts off clients that send a body too slowly or do not take their answer, and upstreams that do not take a body.
 * One look a second at those under way, no timer for each; whatever ends is forgotten at the next look.
 */
export class StallWatch {
  readonly #bodies = new Set<Body>();
  readonly #readers = new Map<ServerResponse, Reader>();
  readonly #timer: NodeJS.Timeout;
  readonly #readerMs: number;

  constructor(readerMs = READER_MS) {
    this.#readerMs = readerMs;
    this.#timer = setInterval(() => this.#sweep(performance.now()), SWEEP_MS);
    this.#timer.unref();
  }

  /** From a request's headers until its body has come. */
  watchBody(request: FastifyRequest): void {
    const startedMs = performance.now();
    const { bytesRead } = request.raw.socket;
    this.#bodies.add({
      request,
      startedMs,
      firstBytes: bytesRead,
      bytes: bytesRead,
      movedMs: startedMs,
      waitedMs: 0,
    });
  }

  /** The client does not take what was written. @param minBytesPerS that it must take on average. */
  watchReader(response: ServerResponse, minBytesPerS: number): void {
    const sinceMs = performance.now();
    const known = this.#readers.get(response);
    if (known !== undefined) known.sinceMs = sinceMs;
    else this.#readers.set(response, { sinceMs, waitedMs: 0, firstBytes: takenOf(response), minBytesPerS });
  }

  readerGoesOn(response: ServerResponse): void {
    const reader = this.#readers.get(response);
    if (reader !== undefined) reader.sinceMs = undefined;
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sweep(nowMs: number): void {
    for (const [response, reader] of this.#readers) {
      if (response.destroyed || response.writableFinished) this.#readers.delete(response);
      else if (this.#isStalled(response, reader, nowMs)) response.destroy();
    }
    for (const body of this.#bodies) {
      const { raw } = body.request;
      if (raw.complete || raw.socket.destroyed) this.#bodies.delete(body);
      else check(body, nowMs);
    }
  }

  #isStalled(response: ServerResponse, reader: Reader, nowMs: number): boolean {
    if (reader.sinceMs === undefined) return false;
    reader.waitedMs += SWEEP_MS;
    if (nowMs - reader.sinceMs > this.#readerMs) return true;
    if (reader.waitedMs < this.#readerMs) return false;
    return takenOf(response) - reader.firstBytes < (reader.waitedMs / 1_000) * reader.minBytesPerS;
  }
}

/** Bytes that the kernel has taken for a client. */
function takenOf({ socket }: ServerResponse): number {
  return socket === null ? 0 : socket.bytesWritten - socket.writableLength;
}

function check(body: Body, nowMs: number): void {
  const { raw, exchange, isClosed } = body.request;
  if (exchange === null) {
    if (nowMs - body.startedMs > OWN_BODY_MS) cutOff(body);
    return;
  }
  if (isClosed) {
    body.overMs ??= nowMs;
    if (nowMs - body.overMs > LEFT_BODY_MS) raw.destroy();
    return;
  }
  const { bytesRead } = raw.socket;
  if (bytesRead !== body.bytes) {
    body.bytes = bytesRead;
    body.movedMs = nowMs;
  }
  const isIdle = nowMs - body.movedMs > exchange.idleTimeoutMs;
  // The upstream does not take what has come.
  if (raw.isPaused()) {
    if (isIdle) exchange.fail(new DomainError("upstream_timeout"));
    return;
  }
  body.waitedMs += SWEEP_MS;
  const isSlow =
    body.waitedMs >= RATE_AFTER_MS &&
    body.bytes - body.firstBytes < (body.waitedMs / 1_000) * exchange.minBytesPerS;
  if (isIdle || isSlow) exchange.fail(new DomainError("request_timeout"));
}

function cutOff({ request }: Body): void {
  if (request.isClosed) {
    // It has its answer.
    request.raw.destroy();
    return;
  }
  const timeout = Object.assign(new Error("the body came too slowly"), { code: "ERR_HTTP_REQUEST_TIMEOUT" });
  answerClientError(timeout, request.raw.socket);
}
