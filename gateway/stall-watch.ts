import type { ServerResponse } from "node:http";
import type { FastifyRequest } from "fastify";
import { DomainError } from "../service-kit/errors.ts";
import { answerClientError } from "./client-error.ts";

const SWEEP_MS = 1_000;
/** For the whole body of a request that is not forwarded. */
const OWN_BODY_MS = 10_000;
/** After so long a body must have come at this rate on average. */
const RATE_AFTER_MS = 10_000;
const MIN_BYTES_PER_S = 500;
/** An answer of which nothing was taken for so long. */
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
}

/**
 * Cuts off clients that send a body too slowly or do not take their answer, and upstreams that do not take a body.
 * One look a second at those under way, no timer for each; whatever ends is forgotten at the next look.
 */
export class StallWatch {
  readonly #bodies = new Set<Body>();
  readonly #readers = new Map<ServerResponse, number>();
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

  /** The client does not take what was written. */
  watchReader(response: ServerResponse): void {
    this.#readers.set(response, performance.now());
  }

  readerGoesOn(response: ServerResponse): void {
    this.#readers.delete(response);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #sweep(nowMs: number): void {
    for (const [response, sinceMs] of this.#readers) {
      if (response.destroyed || response.writableFinished) this.#readers.delete(response);
      else if (nowMs - sinceMs > this.#readerMs) response.destroy();
    }
    for (const body of this.#bodies) {
      const { raw, isClosed } = body.request;
      if (raw.complete || isClosed || raw.socket.destroyed) this.#bodies.delete(body);
      else check(body, nowMs);
    }
  }
}

function check(body: Body, nowMs: number): void {
  const { raw, exchange, isDecided } = body.request;
  const { bytesRead } = raw.socket;
  if (bytesRead !== body.bytes) {
    body.bytes = bytesRead;
    body.movedMs = nowMs;
  }
  if (exchange === null || isDecided) {
    if (nowMs - body.startedMs > OWN_BODY_MS && exchange === null) cutOff(body);
    else if (nowMs - body.movedMs > OWN_BODY_MS) cutOff(body);
    return;
  }
  const isIdle = nowMs - body.movedMs > exchange.idleTimeoutMs;
  // The upstream does not take what has come.
  if (raw.isPaused()) {
    if (isIdle) exchange.fail(new DomainError("upstream_timeout"));
    return;
  }
  body.waitedMs += SWEEP_MS;
  const isSlow =
    body.waitedMs > RATE_AFTER_MS && body.bytes - body.firstBytes < (body.waitedMs / 1_000) * MIN_BYTES_PER_S;
  if (isIdle || isSlow) exchange.fail(new DomainError("request_timeout"));
}

function cutOff({ request }: Body): void {
  const timeout = Object.assign(new Error("the body came too slowly"), { code: "ERR_HTTP_REQUEST_TIMEOUT" });
  answerClientError(timeout, request.raw.socket);
}
