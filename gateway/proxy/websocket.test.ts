import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { type DpopClient, dpopClient } from "#tests/support/people/dpop-client.ts";
import { ProxyTable } from "../routing/proxy-table.ts";
import { statuses } from "../testing/raw-socket.ts";
import { HOST, principalWith, routesOf, testGateway } from "../testing/test-gateway.ts";

const revoked = new Set<string>();
/** Tokens whose verification fails. */
const unknowable = new Set<string>();
let client: DpopClient;
const proxies = new ProxyTable([], createMetrics("test"));
/** The routes file without `/news`. */
let others: object[] = [];
let news: object;
let gateway: ReturnType<typeof testGateway>;
let port = 0;
let asked: IncomingMessage[] = [];
const upstreamSockets = new Set<Socket>();
/** It sends back what it gets. */
const upstream = createServer((_request, response) => response.writeHead(426).end());
upstream.on("upgrade", (request: IncomingMessage, socket: Socket) => {
  asked.push(request);
  upstreamSockets.add(socket);
  socket.on("error", () => undefined).once("close", () => upstreamSockets.delete(socket));
  socket.write(
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: abc\r\nServer: secret\r\n\r\n",
  );
  socket.pipe(socket);
});

const silentSockets = new Set<Socket>();
/** It never answers a handshake. */
const silent = createServer().on("upgrade", (_request, socket: Socket) => {
  silentSockets.add(socket);
  socket.on("error", () => undefined).once("close", () => silentSockets.delete(socket));
  socket.resume().once("end", () => socket.destroy());
});

beforeAll(async () => {
  upstream.listen(0, "127.0.0.1");
  silent.listen(0, "127.0.0.1");
  await Promise.all([once(upstream, "listening"), once(silent, "listening")]);
  const silentOrigin = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`;
  const route = {
    upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
    methods: { GET: { roles: ["USER"], action: "chat.open" } },
  };
  client = await dpopClient();
  others = [
    {
      ...route,
      prefix: "/chat",
      websocket: true,
      idleTimeoutMs: 600_000,
      allowedOrigins: ["https://app.example.com"],
    },
    { ...route, prefix: "/short", websocket: true, idleTimeoutMs: 300 },
    { ...route, prefix: "/plain" },
    { ...route, prefix: "/silent", upstream: silentOrigin, websocket: true, timeoutMs: 60_000 },
    { ...route, prefix: "/late", upstream: silentOrigin, websocket: true, timeoutMs: 300 },
  ];
  const methods = { GET: { auth: "public" } };
  news = { ...route, prefix: "/news", websocket: true, idleTimeoutMs: 600_000, methods };
  proxies.replace(routesOf([...others, news]));
  gateway = testGateway({
    proxies,
    verifier: {
      verify: (token) =>
        unknowable.has(token)
          ? Promise.reject(new Error("token-service is away"))
          : revoked.has(token) || token === "bad"
            ? { kind: "inactive", reason: "revoked" }
            : {
                kind: "active",
                principal: {
                  ...principalWith(token === "admin" ? "ADMIN" : "USER"),
                  userId: token,
                  ...(token === "bound" && { confirmation: { jkt: client.jkt, x5tS256: "" } }),
                },
              },
      refuseSession: () => undefined,
      nowMs: () => Date.now(),
      assertReady: () => undefined,
      close: () => undefined,
    },
    maxWebSockets: 3,
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});

beforeEach(() => {
  asked = [];
  gateway.entries.length = 0;
});

afterAll(async () => {
  await gateway.app.close();
  for (const server of [upstream, silent]) {
    server.closeAllConnections();
    server.close();
  }
});

function open(path: string, token: string, ...headers: string[]) {
  const socket = connect({ port, host: "127.0.0.1" });
  const connection = { socket, text: "", isClosed: false };
  socket.on("data", (chunk) => {
    connection.text += chunk.toString("latin1");
  });
  socket
    .on("error", () => undefined)
    .on("close", () => {
      connection.isClosed = true;
    });
  const lines = [
    `GET ${path} HTTP/1.1`,
    `Host: ${HOST}`,
    ...(token === "" ? [] : [`Authorization: Bearer ${token}`]),
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
    ...headers,
  ];
  socket.write(`${lines.join("\r\n")}\r\n\r\n`);
  return connection;
}

test("a WebSocket with a token of a key opens with a proof only", async () => {
  const opened = async (nonce: string | undefined, ...headers: string[]) => {
    const path = "/chat/8";
    const dpop = await client.proof({
      method: "GET",
      url: path,
      token: "bound",
      ...(nonce !== undefined && { nonce }),
    });
    const connection = open(path, "", ...headers, `DPoP: ${dpop}`);
    await expect.poll(() => statuses(connection.text)).toHaveLength(1);
    connection.socket.destroy();
    return connection.text;
  };
  const asksForNonce = await opened(undefined, "Authorization: DPoP bound");
  const [, nonce] = /^dpop-nonce: (\S+)\r$/m.exec(asksForNonce) ?? [];
  expect(statuses(await opened(nonce, "Authorization: Bearer bound"))).toEqual([401]);
  expect(asked).toEqual([]);
  expect(statuses(await opened(nonce, "Authorization: DPoP bound"))).toEqual([101]);
  expect(asked[0]?.headers).toMatchObject({ authorization: "DPoP bound" });
  expect(asked[0]?.headers).not.toHaveProperty("dpop");
});

test("a WebSocket opens where the route allows it, as the verified caller, and is in the audit log", async () => {
  const connection = open("/v1/chat/7", "user", "X-User-Id: forged");
  await expect.poll(() => statuses(connection.text)).toEqual([101]);
  expect(connection.text).toContain("sec-websocket-accept: abc");
  expect(connection.text).not.toContain("secret");
  expect(asked[0]?.url).toBe("/chat/7");
  expect(asked[0]?.headers).toMatchObject({
    authorization: "Bearer user",
    "x-user-role": "USER",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
  });
  connection.socket.write("frames");
  await expect.poll(() => connection.text).toMatch(/frames$/);
  expect(gateway.entries).toMatchObject([
    { kind: "intent", action: "chat.open", route: "/v1/chat/*", resource: "7" },
    { kind: "outcome", outcome: "success", httpStatus: 101 },
  ]);
  connection.socket.destroy();
  await expect.poll(() => upstreamSockets.size).toBe(0);
});

test.each([
  { path: "/chat", token: "", status: 401 },
  { path: "/chat", token: "bad", status: 401 },
  { path: "/chat", token: "admin", status: 403 },
  { path: "/nowhere", token: "user", status: 404 },
  { path: "/chat/..%2f", token: "user", status: 400 },
])("$path with the token '$token' is $status, and the connection ends", async ({ path, token, status }) => {
  const connection = open(path, token);
  await expect.poll(() => statuses(connection.text)).toEqual([status]);
  if (path === "/chat") await expect.poll(() => connection.isClosed).toBe(true);
  expect(asked).toHaveLength(0);
  connection.socket.destroy();
});

test("a page of an origin that is not listed opens none", async () => {
  const connection = open("/chat", "user", "Origin: https://evil.example.com");
  await expect.poll(() => statuses(connection.text)).toEqual([403]);
  await expect.poll(() => connection.text).toContain('"code":"origin_not_allowed"');
  expect(connection.text).toMatch(/^date: /im);
  const good = open("/chat", "user", "Origin: https://app.example.com");
  await expect.poll(() => statuses(good.text)).toEqual([101]);
  good.socket.destroy();
  await expect.poll(() => upstreamSockets.size).toBe(0);
});

test("where a route allows none the request is answered like any other", async () => {
  const connection = open("/plain", "user");
  await expect.poll(() => statuses(connection.text)).toEqual([426]);
  expect(asked).toHaveLength(0);
  connection.socket.destroy();
});

test("a session that ends takes its WebSocket with it", async () => {
  const connection = open("/chat", "soon-revoked");
  await expect.poll(() => statuses(connection.text)).toEqual([101]);
  revoked.add("soon-revoked");
  await expect.poll(() => connection.isClosed).toBe(true);
  await expect.poll(() => upstreamSockets.size).toBe(0);
});

test("an idle WebSocket ends, and no more are open than allowed", async () => {
  const idle = open("/short", "user");
  await expect.poll(() => idle.isClosed).toBe(true);
  const three = ["a", "b", "c"].map((user) => open("/chat", user));
  for (const each of three) await expect.poll(() => statuses(each.text)).toEqual([101]);
  const fourth = open("/chat", "user");
  await expect.poll(() => statuses(fourth.text)).toEqual([503]);
  for (const each of three) each.socket.destroy();
  await expect.poll(() => upstreamSockets.size).toBe(0);
});

test("a handshake under way has its place, and a user never takes the last one", async () => {
  const mine = [open("/silent", "one"), open("/silent", "one")];
  await expect.poll(() => silentSockets.size).toBe(2);
  const more = open("/silent", "one");
  await expect.poll(() => statuses(more.text)).toEqual([429]);
  const other = open("/chat", "two");
  await expect.poll(() => statuses(other.text)).toEqual([101]);
  const beyond = open("/chat", "three");
  await expect.poll(() => statuses(beyond.text)).toEqual([503]);
  for (const { text } of mine) expect(text).toBe("");
  for (const socket of silentSockets) socket.destroy();
  for (const each of mine) {
    await expect.poll(() => statuses(each.text)).toEqual([502]);
  }
  const again = open("/chat", "four");
  await expect.poll(() => statuses(again.text)).toEqual([101]);
  for (const { socket } of [other, again]) socket.destroy();
  await expect.poll(() => upstreamSockets.size).toBe(0);
});

test("a handshake that its upstream does not answer in time is 504", async () => {
  const connection = open("/late", "user");
  await expect.poll(() => statuses(connection.text)).toEqual([504]);
  await expect.poll(() => silentSockets.size).toBe(0);
});

test("a handshake that is cut may have opened something: its outcome is unknown", async () => {
  const connection = open("/silent", "revoked-early");
  await expect.poll(() => silentSockets.size).toBe(1);
  revoked.add("revoked-early");
  await expect.poll(() => statuses(connection.text)).toEqual([401]);
  expect(gateway.entries[1]).toMatchObject({ outcome: "unknown", errorCode: "token_invalid" });
});

test.each([
  { what: "is removed", change: { prefix: "/other" } },
  { what: "has no WebSockets any more", change: { websocket: false } },
  { what: "is not public any more", change: { methods: { GET: { roles: ["USER"] } } } },
])("a WebSocket whose route $what ends, and no other", async ({ change }) => {
  const [stays, ends] = [open("/v1/chat/7", "user"), open("/v1/news/7", "")];
  for (const each of [stays, ends]) await expect.poll(() => statuses(each.text)).toEqual([101]);
  const slower = others.map((each) => ({ ...each, connectTimeoutMs: 1_000 }));
  proxies.replace(routesOf([...slower, { ...news, ...change }]));
  await expect.poll(() => ends.isClosed).toBe(true);
  await expect.poll(() => upstreamSockets.size).toBe(1);
  stays.socket.write("frames");
  await expect.poll(() => stays.text).toMatch(/frames$/);
  stays.socket.destroy();
  await expect.poll(() => upstreamSockets.size).toBe(0);
  proxies.replace(routesOf([...others, news]));
});

test("what cannot be verified any more does not stay open", async () => {
  const connection = open("/chat", "soon-unknowable");
  await expect.poll(() => statuses(connection.text)).toEqual([101]);
  unknowable.add("soon-unknowable");
  await expect.poll(() => connection.isClosed).toBe(true);
  await expect.poll(() => upstreamSockets.size).toBe(0);
});
