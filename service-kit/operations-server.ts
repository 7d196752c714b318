import { createServer, type Server, type ServerResponse } from "node:http";
import { splitAddress } from "./config.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { Metrics } from "./metrics.ts";

const MAX_CONNECTIONS = 64;

/**
 * Plain HTTP for operators and probes: `/healthz` (the process runs), `/readyz` (it and its dependencies
 * can serve; else 503 with the reasons), `/metrics` (Prometheus).
 */
export async function startOperationsServer(
  address: string,
  lifecycle: Pick<Lifecycle, "unreadyReasons">,
  metrics: Metrics,
): Promise<Server> {
  const server = createServer({ headersTimeout: 3_000, requestTimeout: 5_000 }, (request, response) => {
    answer(request.url ?? "/", lifecycle, metrics, response).catch(() => {
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
  url: string,
  lifecycle: Pick<Lifecycle, "unreadyReasons">,
  metrics: Metrics,
  response: ServerResponse,
): Promise<void> {
  if (url === "/healthz") return send(response, 200, "ok\n");
  if (url === "/readyz") {
    const reasons = await lifecycle.unreadyReasons();
    return reasons.length === 0
      ? send(response, 200, "ready\n")
      : send(response, 503, `${reasons.join("\n")}\n`);
  }
  if (url === "/metrics") return send(response, 200, await metrics.render(), "text/plain; version=0.0.4");
  send(response, 404, "not found\n");
}

function send(response: ServerResponse, status: number, text: string, type = "text/plain"): void {
  response.writeHead(status, { "content-type": type, "cache-control": "no-store" }).end(text);
}
