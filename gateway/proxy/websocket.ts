import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { isDeepStrictEqual } from "node:util";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Dispatcher } from "undici";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { http } from "#kit/values/http.ts";
import { isAnswerOwed } from "../edge/answers/client-error.ts";
import { isOriginAllowed } from "../edge/answers/cors.ts";
import { HTTP_SWITCHING_PROTOCOLS } from "../edge/answers/http-errors.ts";
import { answerHeaders } from "../edge/answers/standard-headers.ts";
import { originForm } from "../edge/proofs/authority.ts";
import { ClientGone, type Completion } from "../edge/request/completion.ts";
import {
  type Exchange,
  type GatewayApp,
  noteExchange,
  noteUncertainEffect,
  type Upgrade,
} from "../edge/request/request-state.ts";
import { type ProxyTable, type ProxyTarget, policyAt } from "../routing/proxy-table.ts";
import type { Upstream } from "../routing/upstream.ts";
import { addDownstreamHeaders } from "./downstream-headers.ts";
import { breakerCaller, enterUpstream, type ProxiedCall, upstreamPath } from "./forward.ts";
import { forwardedHeaders } from "./forwarded-headers.ts";
import {
  callersOf,
  type ExchangeCall,
  exchangeCallOf,
  type OpenExchange,
  type OpenExchanges,
} from "./open-exchanges.ts";
import { guardCallbacks, upstreamFailure } from "./upstream-error.ts";
import { upstreamHeaders } from "./upstream-headers.ts";

export interface WebSocketDeps {
  completion: Completion;
  exchanges: OpenExchanges;
  proxies: Pick<ProxyTable, "find">;
  metrics: Metrics;
  maxWebSockets: number;
}

/** Other upgrades are refused. */
export function asksForWebSocket(
  { method, headers, httpVersion, url = "" }: IncomingMessage,
  proxies: ProxyTable,
): boolean {
  // RFC 9110 §7.8.
  if (httpVersion === "1.0") return false;
  if (method !== "GET" || headers.upgrade?.toLowerCase() !== "websocket") return false;
  const [path = ""] = originForm(url).split("?", 1);
  return proxies.find(path)?.route.websocket === true;
}

/** Upgrades pass the app's checks. */
export function acceptUpgrades(app: GatewayApp): (request: IncomingMessage) => Upgrade | null {
  const upgrades = new WeakMap<IncomingMessage, Upgrade>();
  app.server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    // Node throws if two responses share a connection.
    if (isAnswerOwed(socket)) {
      socket.destroy();
      return;
    }
    upgrades.set(request, { socket, head });
    const response = new http.ServerResponse(request);
    // Node reads no further requests from this connection.
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => socket.destroySoon());
    socket.once("close", () => response.destroy());
    app.server.emit("request", request, response);
  });
  return (request) => upgrades.get(request) ?? null;
}

/** `OpenExchanges` ends each WebSocket with its token or its route. */
export class WebSockets {
  readonly #deps: WebSocketDeps;
  readonly #open = new Set<WebSocketExchange>();

  constructor(deps: WebSocketDeps) {
    this.#deps = deps;
    deps.metrics.gauge("gatehouse_websockets", "Open WebSockets.", [], (gauge) => gauge.set(this.#open.size));
  }

  connect(proxied: ProxiedCall, upgrade: Upgrade): void {
    if (upgrade.socket.destroyed) throw new ClientGone();
    const { request, target } = proxied;
    const { route } = target;
    if (route.allowedOrigins.length > 0 && request.headers.origin !== undefined) {
      if (!isOriginAllowed(request)) {
        throw new DomainError("origin_not_allowed", "WebSockets of this route are for listed origins only.");
      }
    }
    const { maxWebSockets, exchanges, completion, proxies } = this.#deps;
    const free = maxWebSockets - this.#open.size;
    if (free <= 0) throw new DomainError("service_unavailable");
    const onEnd = () => {
      exchanges.leave(exchange);
      this.#open.delete(exchange);
    };
    const exchange = new WebSocketExchange(proxied, { upgrade, completion, proxies, onEnd });
    const callers = callersOf(request);
    exchanges.enter(exchange, {
      kind: route.webSocketKind,
      callers,
      max: route.maxWebSocketsPerCaller,
      free,
    });
    this.#open.add(exchange);
    exchange.begin();
  }

  /** Clients reconnect to another gateway. */
  close(): void {
    for (const exchange of this.#open) exchange.fail(new DomainError("service_unavailable"));
  }
}

interface WebSocketExchangeDeps extends Pick<WebSocketDeps, "completion" | "proxies"> {
  upgrade: Upgrade;
  onEnd: () => void;
}

class WebSocketExchange implements Exchange, OpenExchange, Dispatcher.DispatchHandler {
  readonly idleTimeoutMs = 0;
  readonly minBytesPerS = 0;
  readonly call: ExchangeCall;
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;
  readonly #target: ProxyTarget;
  readonly #authorization: string | null;
  readonly #upgrade: Upgrade;
  readonly #completion: Completion;
  readonly #proxies: WebSocketDeps["proxies"];
  readonly #onEnd: () => void;
  #upstream: Upstream | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #state: "handshake" | "open" | "over" = "handshake";
  #failure: Error | undefined;

  constructor({ request, reply, target, authorization }: ProxiedCall, deps: WebSocketExchangeDeps) {
    this.call = exchangeCallOf(request);
    this.#request = request;
    this.#reply = reply;
    this.#target = target;
    this.#authorization = authorization;
    this.#upgrade = deps.upgrade;
    this.#completion = deps.completion;
    this.#proxies = deps.proxies;
    this.#onEnd = deps.onEnd;
    noteExchange(request, this);
  }

  begin(): void {
    const { route } = this.#target;
    const { raw, state } = this.#request;
    try {
      this.#upstream = enterUpstream(route);
    } catch (error) {
      this.#end();
      throw error;
    }
    this.#upstream.dispatch(
      {
        path: upstreamPath(this.#target, raw.url ?? ""),
        method: "GET",
        headers: upstreamHeaders(raw.rawHeaders, state, this.#authorization, route.allowedHeaderSet).concat(
          forwardedHeaders(this.#request, this.#target),
        ),
        upgrade: "websocket",
        headersTimeout: route.headersTimeoutMs,
      },
      this,
    );
  }

  get isWaiting(): boolean {
    return this.#state === "handshake";
  }

  get isGone(): boolean {
    return this.#upgrade.socket.destroyed;
  }

  /** Unlike a call it has no end of its own, least of all on a public route or with an API key. */
  get isOffRoute(): boolean {
    const { raw, state } = this.#request;
    const [path = ""] = (raw.url ?? "").split("?", 1);
    const target = this.#proxies.find(path);
    if (target === undefined || !target.route.websocket) return true;
    const policy = policyAt(target, path, "GET");
    return policy !== state.policy && !isDeepStrictEqual(policy, state.policy);
  }

  abandon(): void {
    if (this.#state === "handshake") this.fail(new ClientGone());
  }

  fail(error: Error): void {
    if (this.#state === "open") this.#upgrade.socket.destroy();
    if (this.#state !== "handshake") return;
    this.#failure ??= error;
    if (this.#controller === undefined) return;
    noteUncertainEffect(this.#request);
    this.#controller.abort(error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#failure !== undefined) controller.abort(this.#failure);
  }

  onRequestUpgrade(
    controller: Dispatcher.DispatchController,
    _status: number,
    _headers: unknown,
    upstream: Duplex,
  ): void {
    this.#state = "open";
    this.#upstream?.answered();
    this.#upstream?.leave("answered");
    this.#join(controller.rawHeaders as Buffer[], upstream);
  }

  /** The upstream answered without opening a WebSocket. */
  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200) return;
    this.#upstream?.answered();
    this.#failure ??= new DomainError("upstream_unavailable");
    controller.abort(this.#failure);
  }

  onResponseData(): void {}

  onResponseEnd(): void {}

  onResponseError(_controller: Dispatcher.DispatchController, thrown: Error): void {
    if (this.#state !== "handshake") return;
    const { error, isEffectUncertain, isUnsent } = upstreamFailure(thrown, this.#controller !== undefined);
    const isFailed = this.#failure === undefined;
    const caller = isFailed && !isUnsent ? breakerCaller(this.#request) : undefined;
    this.#upstream?.leave(isFailed ? "failed" : "abandoned", caller);
    this.#end();
    if (isEffectUncertain) noteUncertainEffect(this.#request);
    this.#reply.send(this.#failure ?? error);
  }

  #join(rawHeaders: readonly (string | Buffer)[], upstream: Duplex): void {
    const { socket: client, head } = this.#upgrade;
    const request = this.#request;
    const end = () => {
      this.#end();
      client.destroy();
      upstream.destroy();
    };
    client.setTimeout(this.#target.route.idleTimeoutMs, end);
    client.once("close", end);
    upstream.once("close", end).on("error", end);
    const { raw } = this.#reply.hijack();
    const headers = answerHeaders(request);
    addDownstreamHeaders(headers, rawHeaders, this.#target);
    raw.detachSocket(client);
    raw.statusCode = HTTP_SWITCHING_PROTOCOLS;
    client.write(switchingProtocols(headers), "latin1");
    if (head.length > 0) upstream.write(head);
    client.pipe(upstream).pipe(client);
    this.#completion.decided(request, this.#reply);
    this.#completion.closed(request, this.#reply);
  }

  #end(): void {
    if (this.#state === "over") return;
    this.#state = "over";
    this.#onEnd();
  }
}

guardCallbacks(WebSocketExchange.prototype);

function switchingProtocols(headers: readonly string[]): string {
  const lines = [`HTTP/1.1 ${HTTP_SWITCHING_PROTOCOLS} ${http.STATUS_CODES[HTTP_SWITCHING_PROTOCOLS]}`];
  for (let index = 0; index < headers.length; index += 2) {
    lines.push(`${headers[index]}: ${headers[index + 1]}`);
  }
  return `${lines.join("\r\n")}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n`;
}
