import type { RequestListener, Server, ServerOptions, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { http } from "#kit/values/http.ts";
import { type ReceivedRequests, refuseRequest, refuseTunnel } from "./answers/client-error.ts";

const HEADERS_TIMEOUT_MS = 3_000;
/** Must exceed a balancer's. */
const KEEP_ALIVE_MS = 65_000;
const SILENT_CONNECTION_MS = 75_000;
/** Closing two thousand slow clients within one second, in one go, kept all others waiting for 50 ms. */
const CHECK_INTERVAL_MS = 100;
const MAX_REQUESTS_PER_SOCKET = 1_000;

/** Node's parser accepts others, too. */
const KNOWN_METHODS: ReadonlySet<string> = new Set(http.METHODS);

/** Connections on which further requests are not trusted. */
export type EndingConnections = WeakSet<Socket>;

export interface HttpServerDeps {
  ending: EndingConnections;
  received: ReceivedRequests;
  shouldUpgrade: NonNullable<ServerOptions["shouldUpgradeCallback"]>;
  isDraining: () => boolean;
}

export function createHttpServer(
  serve: RequestListener,
  { ending, received, shouldUpgrade, isDraining }: HttpServerDeps,
): Server {
  const server = http.createServer({
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: CHECK_INTERVAL_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // Forwarded uploads may last. `stall-watch.ts` limits slow bodies.
    requestTimeout: 0,
    shouldUpgradeCallback: shouldUpgrade,
    // The request guard answers it.
    requireHostHeader: false,
  });
  server.setTimeout(SILENT_CONNECTION_MS);
  server.maxRequestsPerSocket = MAX_REQUESTS_PER_SOCKET;
  const receive: RequestListener = (request, response) => {
    received.set(request.socket, (received.get(request.socket) ?? 0) + 1);
    // Clients reconnect elsewhere before idle connections are closed (RFC 9112 §9.6).
    if (isDraining()) response.shouldKeepAlive = false;
    if (KNOWN_METHODS.has(request.method ?? "")) serve(request, response);
    else {
      ending.add(request.socket);
      refuseRequest(response, "not_implemented");
    }
  };
  server.on("request", receive);
  server.on("checkContinue", receive);
  server.on("checkExpectation", receive);
  server.on("connect", (_request, socket) => refuseTunnel(socket as Socket));
  return server;
}

/** Node sends a response that waits for an earlier one of its connection even after its `destroy`. */
export function breakOff(response: ServerResponse): void {
  response.destroy();
  response.req.socket.destroy();
}
