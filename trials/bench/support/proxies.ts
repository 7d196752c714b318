/** What the gateway is compared with, each in a process of its own: `node trials/bench/support/proxies.ts <kind> <upstream>`. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import httpProxy from "@fastify/http-proxy";
import fastify from "fastify";
import { type Dispatcher, Pool } from "undici";

const [kind, upstream = ""] = process.argv.slice(2);
process.on("disconnect", () => process.exit());
if (kind === "library") await serveLibrary();
else serveDispatch();

/** @fastify/http-proxy as it comes: no log, no checks. */
async function serveLibrary(): Promise<void> {
  const app = fastify();
  await app.register(httpProxy, { upstream, prefix: "/payments", rewritePrefix: "/payments" });
  await app.listen({ port: 0, host: "127.0.0.1" });
  process.send?.((app.server.address() as AddressInfo).port);
}

/** Node's server and undici's dispatch, and nothing between them. */
function serveDispatch(): void {
  const pool = new Pool(upstream, { connections: 256 });
  const server = createServer((request, response) => {
    const handler: Dispatcher.DispatchHandler = {
      onRequestStart: () => undefined,
      onResponseStart(_controller, status, headers) {
        const { connection, "keep-alive": _keepAlive, ...rest } = headers;
        response.writeHead(status, rest);
      },
      onResponseData: (_controller, chunk) => void response.write(chunk),
      onResponseEnd: () => void response.end(),
      onResponseError: () => void response.destroy(),
    };
    pool.dispatch(
      { path: request.url ?? "/", method: "GET", headers: withoutHop(request.rawHeaders) },
      handler,
    );
  });
  server.listen(0, "127.0.0.1", () => process.send?.((server.address() as AddressInfo).port));
}

function withoutHop(raw: readonly string[]): string[] {
  const kept: string[] = [];
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index]?.toLowerCase() ?? "";
    if (name !== "connection" && name !== "host") kept.push(name, raw[index + 1] ?? "");
  }
  return kept;
}
