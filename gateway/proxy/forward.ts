import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Dispatcher } from "undici";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { HTTP_EARLY_HINTS } from "../edge/answers/http-errors.ts";
import { answerHeaders } from "../edge/answers/standard-headers.ts";
import { type AuditTrail, isOutcomeDue } from "../edge/audit.ts";
import { breakOff } from "../edge/http-server.ts";
import { ClientGone, type Completion, isClosed } from "../edge/request/completion.ts";
import { askForBody, leavesUnread } from "../edge/request/request-body.ts";
import {
  type Exchange,
  noteBreakOff,
  noteExchange,
  noteUncertainEffect,
} from "../edge/request/request-state.ts";
import type { StallWatch } from "../edge/stall-watch.ts";
import type { Share } from "../limits/share-counts.ts";
import type { ProxyRoute, ProxyTarget } from "../routing/proxy-table.ts";
import type { CallEnd, Upstream } from "../routing/upstream.ts";
import { addDownstreamHeaders, passableHints, passableTrailers } from "./downstream-headers.ts";
import { forwardedHeaders } from "./forwarded-headers.ts";
import { limitedBody } from "./limited-body.ts";
import {
  callersOf,
  type ExchangeCall,
  exchangeCallOf,
  type OpenExchange,
  type OpenExchanges,
} from "./open-exchanges.ts";
import { publicValue } from "./public-references.ts";
import { guardCallbacks, isClosedBeforeAnswer, isWholeAnswer, upstreamFailure } from "./upstream-error.ts";
import { upstreamHeaders } from "./upstream-headers.ts";

/** Larger chunks get a write of their own, without a copy. */
const MAX_COPIED_BYTES = 16_384;
const SILENCE_MARGIN_MS = 5_000;
const IDEMPOTENT: ReadonlySet<string> = new Set(["GET", "HEAD"]);
/** 401 and 503. They say that the call was not carried out (RFC 9110 §15.5.2, docs/http.md), so clients make it again. */
const CALLED_AGAIN: ReadonlySet<ErrorCode> = new Set([
  "token_expired",
  "token_invalid",
  "service_unavailable",
]);

/** What the proxy has decided on before a call goes to an upstream. */
export interface ProxiedCall {
  request: FastifyRequest;
  reply: FastifyReply;
  target: ProxyTarget;
  /** Sent to the upstream. */
  authorization: string | null;
}

export interface ForwardDeps {
  completion: Pick<Completion, "decided">;
  audit: Pick<AuditTrail, "recordOutcome">;
  stalls: StallWatch;
  exchanges: OpenExchanges;
}

/**
 * Unsent calls try the next upstream. GET and HEAD are repeated once after a kept-alive connection was closed (RFC 9110
 * §9.2.2). @throws {DomainError}
 */
export function forward(proxied: ProxiedCall, deps: ForwardDeps): void {
  // It left during the audit write, so no `close` event follows.
  if (proxied.reply.raw.destroyed) throw new ClientGone();
  const call = new ForwardedCall(proxied, deps);
  noteExchange(proxied.request, call);
  call.begin();
}

function announcesBody({ headers }: FastifyRequest, maxBytes: number): boolean {
  const length = Number(headers["content-length"] ?? 0);
  if (length > maxBytes) throw new DomainError("payload_too_large");
  return length > 0 || headers["transfer-encoding"] !== undefined;
}

export function upstreamPath({ route, version }: ProxyTarget, url: string): string {
  if (!route.stripPrefix) return version === "" ? url : url.slice(version.length);
  const rest = url.slice(version.length + route.prefix.length);
  return rest.startsWith("/") ? rest : `/${rest}`;
}

/** @throws {DomainError} `upstream_unavailable` or `service_unavailable`. */
export function enterUpstream(route: ProxyRoute, except?: Upstream): Upstream {
  const { origins } = route;
  const nowMs = performance.now();
  for (let tries = 0; tries < origins.length; tries += 1) {
    const upstream = origins[route.turn % origins.length];
    route.turn = (route.turn + 1) % origins.length;
    if (upstream !== undefined && upstream !== except && upstream.enter(nowMs)) return upstream;
  }
  const isFull = except === undefined && origins.every((upstream) => upstream.isFull);
  throw new DomainError(isFull ? "service_unavailable" : "upstream_unavailable");
}

/** Of a caller, in the route's calls. */
export function shareOf(request: FastifyRequest, route: ProxyRoute): Share {
  const { origins, limitKinds, maxOpenPerCaller: max } = route;
  let free = 0;
  for (const upstream of origins) free += upstream.freePlaces;
  return { kind: limitKinds.user, callers: callersOf(request), max, free };
}

/** The widest network of an address counts. */
export function breakerCaller(request: FastifyRequest): string {
  return callersOf(request).at(-1)?.name ?? "";
}

type State =
  | { kind: "new" }
  /** `wasSent`: on an earlier connection, closed before its response. */
  | { kind: "waiting"; upstream: Upstream; wasSent: boolean }
  | { kind: "sent"; upstream: Upstream; controller: Dispatcher.DispatchController }
  /** `left` counts bytes; NaN without a length. `last` is held back until the audit outcome is durable. */
  | {
      kind: "answering";
      upstream: Upstream;
      controller: Dispatcher.DispatchController;
      left: number;
      last: Buffer | undefined;
    }
  /** The client may still read. */
  | { kind: "ended"; isAnswered: boolean; last: Buffer | undefined };

class ForwardedCall implements Exchange, OpenExchange, Dispatcher.DispatchHandler {
  readonly call: ExchangeCall;
  place: OpenExchange["place"] = undefined;
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;
  readonly #target: ProxyTarget;
  readonly #route: ProxyRoute;
  readonly #deps: ForwardDeps;
  readonly #options: Dispatcher.DispatchOptions;
  readonly #hasBody: boolean;
  #state: State = { kind: "new" };
  #triesLeft: number;
  #mayRepeat: boolean;
  /** Why the gateway ends the call. */
  #failure: Error | undefined;
  #total: NodeJS.Timeout | undefined;

  constructor({ request, reply, target, authorization }: ProxiedCall, deps: ForwardDeps) {
    const { route } = target;
    this.call = exchangeCallOf(request);
    this.#request = request;
    this.#reply = reply;
    this.#target = target;
    this.#route = route;
    this.#deps = deps;
    this.#triesLeft = route.origins.length - 1;
    this.#hasBody = announcesBody(request, route.bodyLimitBytes);
    this.#mayRepeat = !this.#hasBody && IDEMPOTENT.has(request.method);
    this.#options = {
      path: upstreamPath(target, request.raw.url ?? ""),
      method: request.method as Dispatcher.HttpMethod,
      headers: upstreamHeaders(
        request.raw.rawHeaders,
        request.state,
        authorization,
        route.allowedHeaderSet,
      ).concat(forwardedHeaders(request, target)),
      body: null,
      headersTimeout: route.headersTimeoutMs,
      bodyTimeout: route.idleTimeoutMs,
    };
  }

  /** @throws {DomainError} */
  begin(): void {
    const { totalTimeoutMs, bodyLimitBytes } = this.#route;
    this.#deps.exchanges.enter(this, shareOf(this.#request, this.#route));
    const upstream = enterUpstream(this.#route);
    this.#state = { kind: "waiting", upstream, wasSent: false };
    this.#allowSilence();
    if (totalTimeoutMs !== undefined) {
      this.#total = setTimeout(() => this.fail(new DomainError("upstream_timeout")), totalTimeoutMs);
    }
    if (this.#hasBody) {
      const { body } = this.#request;
      // Already read, for its approval: the upstream gets the bytes that were digested.
      this.#options.body = Buffer.isBuffer(body) ? body : limitedBody(this.#request.raw, bodyLimitBytes);
      if (!Buffer.isBuffer(body)) askForBody(this.#request, this.#reply);
    }
    upstream.dispatch(this.#options, this);
  }

  #allowSilence(): void {
    const silentMs = Math.max(this.#route.idleTimeoutMs, this.#route.headersTimeoutMs) + SILENCE_MARGIN_MS;
    const { socket } = this.#reply.raw;
    // Node resets the time-out with the next request.
    if (socket !== null && (socket.timeout ?? 0) > 0 && silentMs > (socket.timeout ?? 0)) {
      socket.setTimeout(silentMs);
    }
  }

  get idleTimeoutMs(): number {
    return this.#route.idleTimeoutMs;
  }

  get minBytesPerS(): number {
    return this.#route.minBodyBytesPerS;
  }

  get isWaiting(): boolean {
    return this.#state.kind === "ended" ? !this.#state.isAnswered : this.#state.kind !== "answering";
  }

  get isGone(): boolean {
    return isClosed(this.#request) || this.#request.raw.socket.destroyed;
  }

  abandon(): void {
    if (this.#upstream === undefined) this.#deps.exchanges.leave(this);
    else if (!this.#reply.raw.writableFinished) this.#stop(new ClientGone());
  }

  fail(error: DomainError): void {
    const { raw } = this.#reply;
    if (this.#upstream !== undefined) this.#stop(error);
    else if (!this.isWaiting && !raw.writableFinished) breakOff(raw);
  }

  get #wasSent(): boolean {
    return this.#state.kind === "sent" || (this.#state.kind === "waiting" && this.#state.wasSent);
  }

  get #upstream(): Upstream | undefined {
    return "upstream" in this.#state ? this.#state.upstream : undefined;
  }

  #stop(error: Error): void {
    this.#failure ??= error;
    if ("controller" in this.#state) this.#state.controller.abort(error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#state.kind === "waiting") {
      this.#state = { kind: "sent", upstream: this.#state.upstream, controller };
    }
    if (this.#failure !== undefined) controller.abort(this.#failure);
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    { "content-length": length }: IncomingHttpHeaders,
  ): void {
    const request = this.#request;
    const { raw } = this.#reply;
    this.#mayRepeat = false;
    if (status < 200) {
      // They are dropped while the client takes none: unlike a body, they cannot be stopped.
      const isTaken = raw.writableLength < raw.writableHighWaterMark;
      if (status === HTTP_EARLY_HINTS && isTaken && request.raw.httpVersion !== "1.0") {
        const link = passableHints(controller.rawHeaders as Buffer[]);
        if (link.length > 0)
          raw.writeEarlyHints({ link: link.map((each) => publicValue("link", each, this.#target)) });
      }
      return;
    }
    const headers = answerHeaders(request);
    addDownstreamHeaders(headers, controller.rawHeaders as Buffer[], this.#target);
    if (leavesUnread(request)) headers.push("connection", "close");
    raw.writeHead(status, headers);
    this.#reply.hijack();
    if (this.#state.kind === "sent") {
      const { upstream } = this.#state;
      const left = Number(length ?? Number.NaN);
      this.#state = { kind: "answering", upstream, controller, left, last: undefined };
      upstream.answered();
    }
    this.#deps.completion.decided(request, this.#reply);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const { raw } = this.#reply;
    const state = this.#state;
    if (state.kind === "answering") state.left -= chunk.length;
    if (state.kind === "answering" && state.left === 0) {
      if (isOutcomeDue(this.#request)) state.last = chunk;
      else endWith(raw, chunk);
      return;
    }
    if (raw.write(chunk)) return;
    controller.pause();
    this.#deps.stalls.watchReader(raw, this.minBytesPerS);
    raw.once("drain", () => {
      this.#deps.stalls.readerGoesOn(raw);
      controller.resume();
    });
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    this.#leave("answered");
    const trailers = (controller.rawTrailers ?? []) as Buffer[];
    const durable = this.#deps.audit.recordOutcome(this.#request, this.#reply);
    if (durable === undefined) this.#end(trailers);
    else durable.then(() => this.#end(trailers)).catch(() => breakOff(this.#reply.raw));
  }

  #end(trailers: readonly Buffer[]): void {
    const { raw } = this.#reply;
    const last = this.#state.kind === "ended" ? this.#state.last : undefined;
    if (last !== undefined) endWith(raw, last);
    else if (!raw.writableEnded) {
      if (raw.chunkedEncoding) raw.addTrailers(passableTrailers(trailers, this.#route));
      raw.end();
    }
    // An ended answer has no `drain` any more. One without a socket waits for an earlier one of its connection.
    if (raw.socket !== null && raw.writableLength > 0) this.#deps.stalls.watchReader(raw, this.minBytesPerS);
  }

  onResponseError(controller: Dispatcher.DispatchController, thrown: Error): void {
    if (this.#state.kind === "answering" && isWholeAnswer(thrown, this.#reply.raw.statusCode)) {
      this.onResponseEnd(controller);
      return;
    }
    // Node says so of the body alone while an earlier answer of the connection is due.
    if (thrown instanceof ClientGone) this.#failure ??= thrown;
    const wasSent = this.#wasSent;
    const failure = upstreamFailure(thrown, this.#state.kind !== "waiting");
    const isOurs = this.#failure !== undefined || thrown instanceof DomainError;
    if (!isOurs && failure.isUnsent && this.#tryNext()) return;
    if (!isOurs && this.#mayRepeat && isClosedBeforeAnswer(thrown) && this.#repeat()) return;
    this.#leave(isOurs ? "abandoned" : "failed", failure.isUnsent);
    if (!this.isWaiting) {
      // An ended response was complete.
      if (!this.#reply.raw.writableEnded) this.#breakOff(failure.error);
      return;
    }
    const isEffectUncertain = isOurs ? wasSent : failure.isEffectUncertain;
    if (isEffectUncertain) noteUncertainEffect(this.#request);
    const error = this.#failure ?? failure.error;
    this.#reply.send(isEffectUncertain ? this.#notToRepeat(error) : error);
  }

  #notToRepeat(error: unknown): unknown {
    const isRepeated = error instanceof DomainError && CALLED_AGAIN.has(error.code);
    if (!isRepeated || IDEMPOTENT.has(this.#request.method)) return error;
    return new DomainError("upstream_timeout", undefined, { cause: error });
  }

  #breakOff(thrown: unknown): void {
    const error = this.#failure ?? thrown;
    if (error instanceof DomainError) noteBreakOff(this.#request, error);
    breakOff(this.#reply.raw);
  }

  #tryNext(): boolean {
    if (this.#triesLeft === 0) return false;
    this.#triesLeft -= 1;
    return this.#sendAgain("failed", this.#upstream);
  }

  #repeat(): boolean {
    this.#mayRepeat = false;
    return this.#sendAgain("abandoned");
  }

  #sendAgain(end: CallEnd, except?: Upstream): boolean {
    try {
      const next = enterUpstream(this.#route, except);
      this.#upstream?.leave(end);
      this.#state = { kind: "waiting", upstream: next, wasSent: this.#wasSent };
      next.dispatch(this.#options, this);
      return true;
    } catch {
      return false;
    }
  }

  #leave(end: CallEnd, isUnsent = false): void {
    this.#upstream?.leave(end, end === "failed" && !isUnsent ? breakerCaller(this.#request) : undefined);
    const last = this.#state.kind === "answering" ? this.#state.last : undefined;
    this.#state = { kind: "ended", isAnswered: !this.isWaiting, last };
    clearTimeout(this.#total);
    if (this.isGone) this.#deps.exchanges.leave(this);
  }
}

guardCallbacks(ForwardedCall.prototype);

/** In one write with unsent headers. */
function endWith(raw: ServerResponse, chunk: Buffer): void {
  if (chunk.length <= MAX_COPIED_BYTES) raw.end(chunk.toString("latin1"), "latin1");
  else raw.end(chunk);
}
