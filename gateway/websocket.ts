import { type IncomingMessage, ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Dispatcher } from "undici";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import type { TokenVerifier } from "../token-client/principal.ts";
import { ClientGone } from "./client-gone.ts";
import type { Completion } from "./completion.ts";
import { isOriginAllowed } from "./cors.ts";
import { enterUpstream, upstreamPath } from "./forward.ts";
import { HTTP_SWITCHING_PROTOCOLS } from "./http-errors.ts";
import type { ProxyTable, ProxyTarget } from "./proxy-table.ts";
import type { GatewayApp, Upgrade } from "./request-state.ts";
import { answerHeaders } from "./standard-headers.ts";
import type { Upstream } from "./upstream.ts";
import { upstreamFailure } from "./upstream-error.ts";
import { addDownstreamHeaders, upstreamHeaders } from "./upstream-headers.ts";

const CHECK_MS = 1_000;

export interface WebSocketDeps {
  completion: Completion;
  verifier: Pick<TokenVerifier, "verify">;
  metrics: Metrics;
  logger: Logger;
  /** Open at a time; one more is refused. */
  maxWebSockets: number;
}

interface OpenSocket {
  client: Socket;
  upstream: Duplex;
  /** Empty on public routes. */
  accessToken: string;
}

/** Whether a request asks for a WebSocket where the routes file allows one. Other upgrades are not taken. */
export function asksForWebSocket(
  { method, headers, url = "" }: IncomingMessage,
  proxies: ProxyTable,
): boolean {
  if (method !== "GET" || headers.upgrade?.toLowerCase() !== "websocket") return false;
  const [path = ""] = url.split("?", 1);
  return proxies.find(path)?.route.websocket === true;
}

/**
 * Sends requests for a WebSocket through the app like any other: what refuses a call refuses them in the same way.
 *
 * @returns the connection of a request that asks for one.
 */
export function acceptUpgrades(app: GatewayApp): (request: IncomingMessage) => Upgrade | null {
  const upgrades = new WeakMap<IncomingMessage, Upgrade>();
  app.server.on("upgrade", (request: IncomingMessage, socket: Socket, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    upgrades.set(request, { socket, head });
    const response = new ServerResponse(request);
    // Node reads no more requests from this connection.
    response.shouldKeepAlive = false;
    response.assignSocket(socket);
    response.once("finish", () => socket.destroySoon());
    socket.once("close", () => response.destroy());
    app.server.emit("request", request, response);
  });
  return (request) => upgrades.get(request) ?? null;
}

/** The WebSockets that are open: each as long as its access token is good. */
export class WebSockets {
  readonly #deps: WebSocketDeps;
  readonly #open = new Set<OpenSocket>();
  readonly #timer: NodeJS.Timeout;

  constructor(deps: WebSocketDeps) {
    this.#deps = deps;
    this.#timer = setInterval(() => this.#check(), CHECK_MS);
    this.#timer.unref();
    deps.metrics.gauge("gatehouse_websockets", "Open WebSockets.", [], (gauge) => gauge.set(this.#open.size));
  }

  /** Forwards a request for a WebSocket, and then what goes over it. @throws {DomainError} */
  connect(request: FastifyRequest, reply: FastifyReply, target: ProxyTarget, upgrade: Upgrade): void {
    if (upgrade.socket.destroyed) throw new ClientGone();
    if (target.route.allowedOrigins.length > 0 && request.headers.origin !== undefined) {
      if (!isOriginAllowed(request)) throw new DomainError("forbidden");
    }
    if (this.#open.size >= this.#deps.maxWebSockets) throw new DomainError("service_unavailable");
    const upstream = enterUpstream(target.route);
    const handshake = new Handshake(request, reply, upstream, (headers, other) => {
      this.#join(request, reply, headers, other, target.route.idleTimeoutMs, upgrade);
    });
    upstream.dispatch(
      {
        path: upstreamPath(target, request.raw.url ?? ""),
        method: "GET",
        headers: upstreamHeaders(request.raw.rawHeaders, request),
        upgrade: "websocket",
        headersTimeout: target.route.headersTimeoutMs,
      },
      handshake,
    );
  }

  /** Ends all: clients connect anew, elsewhere. */
  close(): void {
    clearInterval(this.#timer);
    for (const { client } of this.#open) client.destroy();
  }

  #join(
    request: FastifyRequest,
    reply: FastifyReply,
    rawHeaders: readonly (string | Buffer)[],
    upstream: Duplex,
    idleMs: number,
    { socket: client, head }: Upgrade,
  ): void {
    const { raw } = reply.hijack();
    const headers = answerHeaders(request);
    addDownstreamHeaders(headers, rawHeaders);
    raw.detachSocket(client);
    raw.statusCode = HTTP_SWITCHING_PROTOCOLS;
    client.write(switchingProtocols(headers));
    const open = { client, upstream, accessToken: request.accessToken };
    this.#open.add(open);
    const end = () => {
      this.#open.delete(open);
      client.destroy();
      upstream.destroy();
    };
    client.setTimeout(idleMs, end);
    client.once("close", end);
    upstream.once("close", end).on("error", end);
    if (head.length > 0) upstream.write(head);
    client.pipe(upstream).pipe(client);
    this.#deps.completion.decided(request, reply);
    this.#deps.completion.closed(request, reply);
  }

  #check(): void {
    for (const { client, accessToken } of this.#open) {
      if (accessToken === "") continue;
      const verdict = this.#deps.verifier.verify(accessToken);
      if (!(verdict instanceof Promise)) {
        if (verdict.kind !== "active") client.destroy();
        continue;
      }
      // What cannot be known is not allowed, here as everywhere.
      verdict.then(
        ({ kind }) => kind === "active" || client.destroy(),
        () => client.destroy(),
      );
    }
  }
}

/** The request for a WebSocket on its way to an upstream. */
class Handshake implements Dispatcher.DispatchHandler {
  readonly idleTimeoutMs = 0;
  readonly #request: FastifyRequest;
  readonly #reply: FastifyReply;
  readonly #upstream: Upstream;
  readonly #join: (rawHeaders: readonly (string | Buffer)[], socket: Duplex) => void;
  #controller: Dispatcher.DispatchController | undefined;
  #isOver = false;
  #failure: Error | undefined;

  constructor(
    request: FastifyRequest,
    reply: FastifyReply,
    upstream: Upstream,
    join: (rawHeaders: readonly (string | Buffer)[], socket: Duplex) => void,
  ) {
    this.#request = request;
    this.#reply = reply;
    this.#upstream = upstream;
    this.#join = join;
    request.exchange = this;
  }

  abandon(): void {
    this.fail(new ClientGone());
  }

  fail(error: Error): void {
    if (this.#isOver) return;
    this.#failure ??= error;
    this.#controller?.abort(error);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#failure !== undefined) controller.abort(this.#failure);
  }

  onRequestUpgrade(
    controller: Dispatcher.DispatchController,
    _status: number,
    _headers: unknown,
    socket: Duplex,
  ): void {
    this.#isOver = true;
    this.#upstream.answered();
    this.#upstream.leave("answered");
    this.#join(controller.rawHeaders as Buffer[], socket);
  }

  /** The upstream has answered, but opens no WebSocket. */
  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    if (status < 200) return;
    this.#upstream.answered();
    this.#failure ??= new DomainError("upstream_unavailable");
    controller.abort(this.#failure);
  }

  onResponseData(): void {}

  onResponseEnd(): void {}

  onResponseError(_controller: Dispatcher.DispatchController, thrown: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#upstream.leave(this.#failure === undefined ? "failed" : "abandoned");
    const { error, isEffectUncertain } = upstreamFailure(thrown);
    this.#request.isEffectUncertain = isEffectUncertain;
    this.#reply.send(this.#failure ?? error);
  }
}

function switchingProtocols(headers: readonly string[]): string {
  const lines = [`HTTP/1.1 ${HTTP_SWITCHING_PROTOCOLS} ${STATUS_CODES[HTTP_SWITCHING_PROTOCOLS]}`];
  for (let index = 0; index < headers.length; index += 2) {
    lines.push(`${headers[index]}: ${headers[index + 1]}`);
  }
  return `${lines.join("\r\n")}\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n`;
}
