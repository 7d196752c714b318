import type { ServerResponse } from "node:http";
import type { FastifyRequest } from "fastify";
import { DomainError } from "#kit/values/errors.ts";
import { answerClientError } from "./answers/client-error.ts";
import { breakOff } from "./http-server.ts";
import { isClosed } from "./request/completion.ts";

/** As often as `http-server.ts` looks: whoever closes a second's slow clients at once makes all others wait. */
const SWEEP_MS = 100;
const OWN_BODY_MS = 10_000;
/** After its call was answered. */
const LEFT_BODY_MS = 10_000;
/** After this time the average rate is checked. */
const RATE_AFTER_MS = 10_000;
/** Without progress, or in total before the average rate is checked. */
const READER_MS = 30_000;

interface Body {
  request: FastifyRequest;
  startedMs: number;
  firstBytes: number;
  bytes: number;
  movedMs: number;
  /** Time spent waiting for the client. */
  waitedMs: number;
  overMs?: number;
}

interface Reader {
  /** Undefined while the reader progresses. */
  sinceMs: number | undefined;
  waitedMs: number;
  firstBytes: number;
  minBytesPerS: number;
}

/** One sweep of all replaces a timer per request. */
export class StallWatch {
  readonly #bodies = new Set<Body>();
  readonly #readers = new Map<ServerResponse, Reader>();
  /** Runs while there is something to watch. */
  #timer: NodeJS.Timeout | undefined;
  readonly #readerMs: number;

  constructor(readerMs = READER_MS) {
    this.#readerMs = readerMs;
  }

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
    this.#start();
  }

  watchReader(response: ServerResponse, minBytesPerS: number): void {
    const sinceMs = performance.now();
    const known = this.#readers.get(response);
    if (known !== undefined) known.sinceMs = sinceMs;
    else this.#readers.set(response, { sinceMs, waitedMs: 0, firstBytes: takenOf(response), minBytesPerS });
    this.#start();
  }

  readerGoesOn(response: ServerResponse): void {
    const reader = this.#readers.get(response);
    if (reader !== undefined) reader.sinceMs = undefined;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #start(): void {
    // After a stall of this process, what has come meanwhile is read first.
    this.#timer ??= setInterval(() => setImmediate(() => this.#sweep(performance.now())), SWEEP_MS).unref();
  }

  #sweep(nowMs: number): void {
    for (const [response, reader] of this.#readers) {
      if (response.destroyed || response.writableFinished) this.#readers.delete(response);
      else if (this.#isStalled(response, reader, nowMs)) breakOff(response);
    }
    for (const body of this.#bodies) {
      const { raw } = body.request;
      if (raw.complete || raw.socket.destroyed) this.#bodies.delete(body);
      else check(body, nowMs);
    }
    if (this.#readers.size === 0 && this.#bodies.size === 0) this.close();
  }

  #isStalled(response: ServerResponse, reader: Reader, nowMs: number): boolean {
    if (reader.sinceMs === undefined) return false;
    reader.waitedMs += SWEEP_MS;
    if (nowMs - reader.sinceMs > this.#readerMs) return true;
    if (reader.waitedMs < this.#readerMs) return false;
    return takenOf(response) - reader.firstBytes < (reader.waitedMs / 1_000) * reader.minBytesPerS;
  }
}

/** Bytes accepted by the kernel. */
function takenOf({ socket }: ServerResponse): number {
  return socket === null ? 0 : socket.bytesWritten - socket.writableLength;
}

function check(body: Body, nowMs: number): void {
  const { raw, state } = body.request;
  const { exchange } = state;
  if (exchange === null) {
    if (nowMs - body.startedMs > OWN_BODY_MS) cutOff(body);
    return;
  }
  if (isClosed(body.request)) {
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
  if (isClosed(request)) {
    request.raw.destroy();
    return;
  }
  const timeout = Object.assign(new Error("the body came too slowly"), { code: "ERR_HTTP_REQUEST_TIMEOUT" });
  answerClientError(timeout, request.raw.socket);
}
