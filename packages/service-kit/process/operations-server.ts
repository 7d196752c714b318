import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { splitAddress } from "../config/config.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { isLoopback } from "../values/loopback.ts";
import { BUILD } from "./build.ts";
import type { Lifecycle } from "./lifecycle.ts";
import { createLogLevelSwitch, type LogLevelSwitch } from "./log-level-switch.ts";

export interface OperationsDeps {
  lifecycle: Pick<Lifecycle, "unreadyReasons">;
  metrics: Metrics;
  logger: Logger;
}

const MAX_CONNECTIONS = 64;

/** Only the same host can change the log level, as through a port forward. */
export async function startOperationsServer(address: string, deps: OperationsDeps): Promise<Server> {
  const logLevel = createLogLevelSwitch(deps.logger);
  const server = createServer({ headersTimeout: 3_000, requestTimeout: 5_000 }, (request, response) => {
    answer(request, response, deps, logLevel).catch(() => {
      if (!response.headersSent) send(response, 500, "internal error\n");
    });
  });
  server.maxConnections = MAX_CONNECTIONS;
  const { host, port } = splitAddress(address);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  return server;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { lifecycle, metrics }: OperationsDeps,
  logLevel: LogLevelSwitch,
): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://operations");
  if (pathname === "/log-level" && request.method === "PUT") {
    if (!isLoopback(request.socket.remoteAddress)) return send(response, 403, "only from this host\n");
    const answered = logLevel.set(searchParams.get("level"), searchParams.get("minutes"));
    return send(response, answered.isChanged ? 200 : 400, `${answered.message}\n`);
  }
  if (request.method !== "GET" && request.method !== "HEAD") {
    response.setHeader("allow", pathname === "/log-level" ? "GET, HEAD, PUT" : "GET, HEAD");
    return send(response, 405, "method not allowed\n");
  }
  if (pathname === "/log-level") return send(response, 200, `${logLevel.describe()}\n`);
  if (pathname === "/healthz") return send(response, 200, "ok\n");
  if (pathname === "/version") return send(response, 200, `${JSON.stringify(BUILD)}\n`, "application/json");
  if (pathname === "/readyz") {
    const reasons = await lifecycle.unreadyReasons();
    return reasons.length === 0
      ? send(response, 200, "ready\n")
      : send(response, 503, `${reasons.join("\n")}\n`);
  }
  if (pathname === "/metrics")
    return send(response, 200, await metrics.render(), "text/plain; version=0.0.4");
  send(response, 404, "not found\n");
}

function send(response: ServerResponse, status: number, text: string, type = "text/plain"): void {
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(text);
}
