import { createServer, METHODS, type RequestListener, type Server, type ServerOptions } from "node:http";
import type { Socket } from "node:net";
import { refuseRequest, refuseTunnel } from "./client-error.ts";

const HEADERS_TIMEOUT_MS = 3_000;
/** Longer than a balancer keeps its side, so that never we close a connection it is about to use. */
const KEEP_ALIVE_MS = 65_000;
/** Nothing sent and nothing read: a client that has gone, or that takes an answer and does not read it. */
const SILENT_CONNECTION_MS = 75_000;
const CHECK_INTERVAL_MS = 1_000;
const MAX_REQUESTS_PER_SOCKET = 1_000;

/** The methods that the framework has routes and hooks for. Node's parser takes more, those of RTSP among them. */
const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS);

/** Connections that serve no further request: what follows on them may not be what its sender meant. */
export type EndingConnections = WeakSet<Socket>;

/**
 * The gateway's HTTP server. Every request reaches `serve` and its hooks, or is refused here with a documented error. That
 * includes `Expect`, CONNECT and unsupported upgrades.
 *
 * @param isDraining whether the process is about to stop: each response then closes its connection.
 */
export function createHttpServer(
  serve: RequestListener,
  ending: EndingConnections,
  shouldUpgradeCallback: NonNullable<ServerOptions["shouldUpgradeCallback"]>,
  isDraining: () => boolean,
): Server {
  const server = createServer({
    headersTimeout: HEADERS_TIMEOUT_MS,
    connectionsCheckingInterval: CHECK_INTERVAL_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    // A forwarded upload may last: how bodies arrive is watched by `stall-watch.ts`.
    requestTimeout: 0,
    // Other upgrades are requests like any other.
    shouldUpgradeCallback,
    // The guard answers it, in the documented shape.
    requireHostHeader: false,
  });
  server.setTimeout(SILENT_CONNECTION_MS);
  server.maxRequestsPerSocket = MAX_REQUESTS_PER_SOCKET;
  const receive: RequestListener = (request, response) => {
    // Clients reconnect elsewhere before idle connections are closed (RFC 9112 section 9.6).
    if (isDraining()) response.shouldKeepAlive = false;
    if (KNOWN_METHODS.has(request.method ?? "")) serve(request, response);
    else {
      ending.add(request.socket);
      refuseRequest(response, "not_implemented");
    }
  };
  server.on("request", receive);
  // Whether a body is wanted is known when the request has been let through.
  server.on("checkContinue", receive);
  // Another expectation than 100-continue: Node would answer without our headers.
  server.on("checkExpectation", receive);
  server.on("connect", (_request, socket) => refuseTunnel(socket as Socket));
  return server;
}
