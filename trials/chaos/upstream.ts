import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { Received } from "./history.ts";

/** An upstream that outlives every fault and remembers what it was sent. */
export async function startUpstream() {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const body = await text(request).catch(() => undefined);
    // The gateway has left in the middle of a body: nothing is carried out.
    if (body === undefined) return void response.destroy();
    const header = (name: string) => request.headers[name]?.toString();
    const optional = {
      reference: body === "" ? undefined : (JSON.parse(body) as { reference: string }).reference,
      idempotencyKey: header("idempotency-key"),
      approvalId: header("x-approval-id"),
      approvalDigest: header("x-approval-digest"),
    };
    received.push({
      atMs: performance.now(),
      traceId: header("traceparent")?.split("-")[1] ?? "",
      method: request.method ?? "",
      userId: header("x-user-id") ?? "",
      sessionId: header("x-session-id") ?? "",
      role: header("x-user-role") ?? "",
      ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
    });
    response
      .writeHead(request.method === "POST" ? 201 : 200, { "content-type": "application/json" })
      .end("{}");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    received,
    port: (server.address() as AddressInfo).port,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}
