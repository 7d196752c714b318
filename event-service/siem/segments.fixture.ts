import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";

/** Undefined: as an object store answers. */
type Answer = (request: IncomingMessage, response: ServerResponse) => unknown;

/** What of S3 a collector sees. It refuses what is not signed for its content. A trial has a real one. */
export async function startBucket() {
  const objects = new Map<string, Buffer>();
  const requests: { method: string; path: string; headers: IncomingMessage["headers"] }[] = [];
  const state: { answer: Answer | undefined } = { answer: undefined };
  const server = createServer(async (request, response) => {
    const { method = "", url: path = "", headers } = request;
    const body = await buffer(request).catch(() => undefined);
    requests.push({ method, path, headers });
    if (state.answer?.(request, response) !== undefined) return;
    const hash = createHash("sha256").update(body ?? "");
    if (hash.digest("hex") !== headers["x-amz-content-sha256"]) return response.writeHead(400).end();
    const name = path.replace(/^\/audit\/gatehouse\//, "");
    if (method === "PUT") objects.set(name, body ?? Buffer.of());
    const found = objects.get(name);
    if (found === undefined) return response.writeHead(404).end("<Error><Code>NoSuchKey</Code></Error>");
    return response.writeHead(200).end(method === "GET" ? found : "");
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/audit/gatehouse`,
    objects,
    requests,
    answer(answer?: Answer) {
      state.answer = answer;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export type Bucket = Awaited<ReturnType<typeof startBucket>>;
