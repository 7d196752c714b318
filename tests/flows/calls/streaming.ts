import { once } from "node:events";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { createServer, request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { finished, pipeline } from "node:stream/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, readLog, type System } from "../../support/system/system.ts";

const MIB = 1024 * 1024;
/** `npm run trial -- large` sends 1,024. */
const SIZE_MIB = Number(process.env.STREAM_MIB ?? 256);
/** V8 lets some 32 MiB of buffers pass before it collects them, however long the stream is. */
const MAX_GROWTH_MIB = 64;
const CHUNK = Buffer.alloc(MIB, "0123456789abcdef");

type User = Awaited<ReturnType<ApiClient["newUser"]>>;

let system: System;
let api: ApiClient;
let token: string;
/** Open responses of `/events`. */
const streams = new Set<ServerResponse>();
const upstream = createServer(async (request, response) => {
  if (request.url === "/events") {
    sendEvents(response);
    return;
  }
  if (request.method === "GET") {
    response.writeHead(200, { "content-length": SIZE_MIB * MIB });
    await pipeline(Readable.from(chunks()), response).catch(() => undefined);
    return;
  }
  response.end(String(await bytesOf(request)));
});

function sendEvents(response: ServerResponse): void {
  streams.add(response);
  response.writeHead(200, { "content-type": "text/event-stream" });
  const timer = setInterval(() => response.write("data: x\n\n"), 50);
  response.once("close", () => {
    clearInterval(timer);
    streams.delete(response);
  });
}

function* chunks() {
  for (let count = 0; count < SIZE_MIB; count += 1) yield CHUNK;
}

async function bytesOf(stream: AsyncIterable<Buffer>): Promise<number> {
  let bytes = 0;
  for await (const chunk of stream) bytes += chunk.length;
  return bytes;
}

/** Resident memory of the gateway as it reports it itself. */
async function residentBytes(): Promise<number> {
  const response = await fetch(`http://127.0.0.1:${system.ports.GATEWAY_OPERATIONS_PORT}/metrics`);
  return Number(/^process_resident_memory_bytes\{.*\} (\S+)$/m.exec(await response.text())?.[1]);
}

/** @returns the most that resident memory grew by while the work went on. */
async function growthDuring(work: () => Promise<void>): Promise<number> {
  const before = await residentBytes();
  let most = before;
  const watch = setInterval(async () => {
    most = Math.max(most, await residentBytes());
  }, 100);
  await work();
  clearInterval(watch);
  return Math.max(most, await residentBytes()) - before;
}

function send(method: "GET" | "POST", path = "/large", accessToken = token) {
  const headers = { authorization: `Bearer ${accessToken}` };
  return httpRequest(system.url + path, { method, headers, agent: false });
}

/** A stream after its first event. `ended` rejects if the stream is cut. */
async function openEvents(accessToken: string) {
  const answer = await answerTo(send("GET", "/events", accessToken).end());
  let count = 0;
  const ended = finished(answer.on("data", () => (count += 1)));
  ended.catch(() => undefined); // whoever waits for it is notified
  await expect.poll(() => count).toBeGreaterThan(0);
  return { ended, events: () => count, close: () => answer.destroy() };
}

async function answerTo(request: ReturnType<typeof send>): Promise<IncomingMessage> {
  const [response] = (await once(request, "response")) as [IncomingMessage];
  expect(response.statusCode).toBe(200);
  return response;
}

beforeAll(async () => {
  system = oneSystem();
  api = apiClient(system.url);
  token = (await api.newUser()).accessToken;
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  await appendFile(
    `${system.home}/routes.yaml`,
    `
  - prefix: /large
    upstream: ${url}
    bodyLimitBytes: ${2 * SIZE_MIB * MIB}
    streaming: true
    methods:
      GET: { roles: [USER] }
      POST: { roles: [USER], action: large.send }
  - prefix: /events
    upstream: ${url}
    streaming: true
    methods:
      GET: { roles: [USER] }
`,
  );
});

afterAll(() => {
  upstream.closeAllConnections();
  upstream.close();
});

test("a route that is added to the routes file is served without a restart; a broken file changes nothing", async () => {
  const status = async () => (await api.call("DELETE", "/large", { token })).status;
  await expect.poll(status).toBe(405);
  const file = `${system.home}/routes.yaml`;
  const good = await readFile(file, "utf8");
  await writeFile(file, "routes: 7");
  await expect.poll(() => readLog(system, "gateway")).toContain("cannot be used");
  expect(await status()).toBe(405);
  await writeFile(file, good);
});

describe("server-sent events end with their session, on both sides, and those of others go on", () => {
  test.each([
    {
      how: "the user logs out",
      end: ({ accessToken }: User) => api.post("/auth/logout", undefined, { token: accessToken }),
    },
    {
      how: "the user logs out everywhere else",
      end: async (user: User) =>
        api.post("/auth/logout", { scope: "others" }, { token: (await api.logIn(user)).accessToken }),
    },
    {
      how: "an administrator ends the user's sessions",
      end: async ({ user }: User) =>
        api.post(`/admin/users/${user.id}/sessions/revoke`, undefined, {
          token: (await api.logIn(ADMIN)).accessToken,
        }),
    },
  ])("when $how", async ({ end }) => {
    const user = await api.newUser();
    const [mine, other] = [await openEvents(user.accessToken), await openEvents(token)];
    expect(streams.size).toBe(2);

    expect((await end(user)).status).toBe(200);
    await expect(mine.ended, "cut, not ended in order").rejects.toThrow("aborted");
    await expect.poll(() => streams.size).toBe(1);
    const before = other.events();
    await expect.poll(other.events).toBeGreaterThan(before);
    expect((await api.get("/events", { token: user.accessToken })).status).toBe(401);
    other.close();
    await expect.poll(() => streams.size).toBe(0);
  });
});

test(`${SIZE_MIB} MiB pass up and down while the gateway grows by less than ${MAX_GROWTH_MIB} MiB`, {
  tags: "exhaustive",
  timeout: 600_000,
}, async () => {
  const upload = async () => {
    const request = send("POST");
    const answer = answerTo(request);
    await pipeline(Readable.from(chunks()), request);
    expect(Number(await (await answer).toArray().then((parts) => Buffer.concat(parts).toString()))).toBe(
      SIZE_MIB * MIB,
    );
  };
  const download = async () => {
    const request = send("GET").end();
    expect(await bytesOf(await answerTo(request))).toBe(SIZE_MIB * MIB);
  };
  // Once before: what a process takes for its first stream of any size is not what is measured.
  await upload();
  await download();
  expect(await growthDuring(upload)).toBeLessThan(MAX_GROWTH_MIB * MIB);
  expect(await growthDuring(download)).toBeLessThan(MAX_GROWTH_MIB * MIB);
});
