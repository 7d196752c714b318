import { once } from "node:events";
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { type AddressInfo, connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import type { AuditOutcome } from "#audit-client/stream/audit-entry.ts";
import { exchange, statuses } from "../testing/raw-socket.ts";
import { HOST, routesOf, SESSION_ID, testGateway, USER_ID } from "../testing/test-gateway.ts";

const MIB = 1024 * 1024;
type Serve = (request: IncomingMessage, response: ServerResponse) => void;

let serve: Serve;
/** How long it takes until an intent is durable. */
let onRecord = async () => {};
let served: IncomingMessage[] = [];
const upstream = createServer((request, response) => {
  served.push(request);
  serve(request, response);
});
let gateway: ReturnType<typeof testGateway>;
let port = 0;

beforeAll(async () => {
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const methods = {
    GET: { roles: ["USER", "ADMIN"] },
    POST: { roles: ["USER", "ADMIN"], action: "payments.create" },
    DELETE: { roles: ["ADMIN"], action: "payments.delete" },
  };
  // Longer than a busy machine takes for a large body.
  const route = { timeoutMs: 30_000, bodyLimitBytes: 16 * MIB, methods };
  gateway = testGateway({
    nextRecorder: () => ({
      record: async (entry) => {
        gateway.entries.push(entry);
        await onRecord();
      },
      enqueue: (entry) => void gateway.entries.push(entry),
    }),
    routes: routesOf([
      { ...route, prefix: "/payments", upstream: `http://127.0.0.1:${portOf(upstream)}` },
      {
        ...route,
        prefix: "/hasty",
        upstream: `http://127.0.0.1:${portOf(upstream)}`,
        timeoutMs: 300,
      },
      { ...route, prefix: "/gone", upstream: `http://127.0.0.1:${await freePort()}` },
      { ...route, prefix: "/small", upstream: `http://127.0.0.1:${portOf(upstream)}`, bodyLimitBytes: 10 },
    ]),
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = portOf(gateway.app.server);
});

beforeEach(() => {
  served = [];
  gateway.entries.length = 0;
  onRecord = async () => {};
  serve = (_request, response) => response.end("ok");
});

afterAll(async () => {
  await gateway.app.close();
  upstream.closeAllConnections();
  upstream.close();
});

function portOf(server: { address(): AddressInfo | string | null }): number {
  return (server.address() as AddressInfo).port;
}

function openConnections(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const free = portOf(server);
  server.close();
  return free;
}

interface Answer {
  status: number;
  headers: IncomingMessage["headers"];
  body: Buffer;
}

interface Sent {
  method?: string;
  path?: string;
  token?: string;
  headers?: Record<string, string | string[]>;
  body?: string | Buffer;
}

function begin({ method = "GET", path = "/payments", token = "user-token", headers }: Sent) {
  const authorization = token === "" ? {} : { authorization: `Bearer ${token}` };
  return httpRequest({
    port,
    host: "127.0.0.1",
    method,
    path,
    agent: false,
    headers: { host: HOST, ...authorization, ...headers },
  });
}

async function call(sent: Sent): Promise<Answer> {
  const request = begin(sent);
  request.end(sent.body);
  const [response] = (await once(request, "response")) as [IncomingMessage];
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk as Buffer);
  return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) };
}

function codeOf({ body }: Answer): string {
  return JSON.parse(body.toString()).error.code;
}

async function outcome(): Promise<AuditOutcome | undefined> {
  const found = () => gateway.entries.find((entry) => entry.kind === "outcome");
  await expect.poll(found, { interval: 5 }).toBeDefined();
  return found();
}

test("only the gateway's own answers have its mark: no upstream can send it, in an answer, a hint or a trailer", async () => {
  serve = (_request, response) => {
    const mark = { "gatehouse-answer": "gateway" };
    response.writeEarlyHints({ link: "</a.css>; rel=preload; as=style", ...mark });
    response.writeHead(403, { ...mark, "Gatehouse-ANSWER": "gateway", trailer: "gatehouse-answer" });
    response.write('{"error":{"code":"approval_required"}}');
    response.addTrailers(mark);
    response.end();
  };
  const hints: IncomingMessage["headers"][] = [];
  const request = begin({ token: "user-token" });
  request.on("information", ({ headers }) => hints.push(headers));
  request.end();
  const [answer] = (await once(request, "response")) as [IncomingMessage];
  await answer.resume().toArray();
  expect([answer.statusCode, hints.length]).toEqual([403, 1]);
  for (const seen of [...hints, answer.headers, answer.trailers])
    expect(Object.keys(seen)).not.toContain("gatehouse-answer");
  const own: Sent[] = [
    { token: "" },
    { token: "unknown" },
    { method: "DELETE" },
    { method: "PATCH" },
    { path: "/gone" },
    { path: "/nothing" },
    { path: "/openapi.json", token: "" },
    { headers: { host: "other.example" } },
  ];
  for (const sent of own) {
    const { status, headers } = await call(sent);
    expect([sent, status, headers["gatehouse-answer"]]).toEqual([sent, status, "gateway"]);
  }
});

test("a call goes on with the verified identity, and its answer comes back", async () => {
  serve = (_request, response) => {
    response.writeHead(201, {
      "content-type": "text/x",
      "x-own": "1",
      server: "secret",
      "set-cookie": ["a=1", "b=2"],
    });
    response.end("made");
  };
  const answer = await call({
    method: "POST",
    path: "/payments/a%20b?x=%2F..//&y",
    headers: {
      "content-type": "application/json",
      "x-user-id": "forged",
      "x-user_role": "ADMIN",
      "x-auth-context": "urn:gatehouse:acr:3",
      connection: "close, te",
    },
    body: '{"a":1,"a":2}',
  });
  expect([answer.status, answer.body.toString()]).toEqual([201, "made"]);
  expect(answer.headers).toMatchObject({
    "content-type": "text/x",
    "x-own": "1",
    "set-cookie": ["a=1; Path=/payments", "b=2; Path=/payments"],
    "x-content-type-options": "nosniff",
  });
  expect(answer.headers.server).toBeUndefined();
  const [request] = served;
  expect(request?.url).toBe("/payments/a%20b?x=%2F..//&y");
  expect(request?.headers).toMatchObject({
    host: `127.0.0.1:${portOf(upstream)}`,
    authorization: "Bearer user-token",
    "x-user-id": USER_ID,
    "x-user-role": "USER",
    "x-session-id": SESSION_ID,
    "x-auth-context": "urn:gatehouse:acr:1",
    "x-auth-time": expect.stringMatching(/^\d{10}$/),
    "x-request-id": answer.headers["x-request-id"],
    traceparent: expect.stringMatching(/^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/),
  });
  expect(Object.keys(request?.headers ?? {})).not.toContain("x-user_role");
  expect(gateway.entries).toMatchObject([
    {
      kind: "intent",
      action: "payments.create",
      route: "/payments/*",
      resource: "a b",
      actor: { userId: USER_ID },
    },
    { kind: "outcome", outcome: "success", httpStatus: 201 },
  ]);
});

test("version 1 by name is the same path to the upstream", async () => {
  await call({ path: "/v1/payments/7?a=1" });
  expect(served[0]?.url).toBe("/payments/7?a=1");
});

test.each([
  { sent: { token: "" }, status: 401, code: "token_missing" },
  { sent: { token: "revoked-token" }, status: 401, code: "token_invalid" },
  { sent: { token: "auditor-token" }, status: 403, code: "forbidden" },
  { sent: { method: "DELETE", path: "/payments/1" }, status: 403, code: "forbidden" },
  { sent: { method: "PUT" }, status: 405, code: "method_not_allowed" },
  { sent: { path: "/paymentsx" }, status: 404, code: "not_found" },
  { sent: { path: "/PAYMENTS" }, status: 404, code: "not_found" },
  { sent: { path: "/%70ayments" }, status: 404, code: "not_found" },
  { sent: { path: "/payments/../admin" }, status: 400, code: "bad_request" },
  { sent: { path: "/payments/%2e%2e/admin" }, status: 400, code: "bad_request" },
])("$sent is $status $code and never reaches the upstream", async ({ sent, status, code }) => {
  const answer = await call(sent);
  expect([answer.status, codeOf(answer)]).toEqual([status, code]);
  expect(served).toHaveLength(0);
  // Only the refusal of a caller who is known is recorded.
  expect(gateway.entries.map(({ kind }) => kind)).toEqual(status === 403 ? ["outcome"] : []);
});

test("a method that a route lacks is answered with the allowed ones", async () => {
  expect((await call({ method: "PATCH" })).headers.allow).toBe("DELETE, GET, HEAD, POST, OPTIONS");
});

test("HEAD goes with GET", async () => {
  serve = (_request, response) => response.writeHead(200, { "content-length": 5 }).end();
  const answer = await call({ method: "HEAD" });
  expect([answer.status, answer.headers["content-length"], answer.body.length]).toEqual([200, "5", 0]);
  expect(served[0]?.method).toBe("HEAD");
});

test("answers without a body and upstream failures come through as they are", async () => {
  for (const status of [204, 304, 404, 422, 500, 503]) {
    serve = (_request, response) => response.writeHead(status).end();
    expect((await call({})).status).toBe(status);
  }
});

test.each([{ "content-length": String(8 * MIB) }, {}])("8 MiB pass both ways, with %j", async (headers) => {
  const body = Buffer.alloc(8 * MIB, "0123456789abcdef");
  serve = (request, response) => request.pipe(response);
  const answer = await call({ method: "POST", headers, body });
  expect(answer.status).toBe(200);
  expect(answer.body.equals(body)).toBe(true);
});

test("an upload is passed on while it arrives, and an answer while it is made", async () => {
  serve = (request, response) => request.pipe(response);
  const request = begin({ method: "POST" });
  request.write("first");
  const [response] = (await once(request, "response")) as [IncomingMessage];
  expect(String((await once(response, "data"))[0])).toBe("first");
  request.end("last");
  expect(String((await once(response, "data"))[0])).toBe("last");
});

test("a body beyond the route's limit is 413, announced or not", async () => {
  serve = (request, response) => request.resume().once("end", () => response.end());
  const announced = await call({ method: "POST", path: "/small", body: "12345678901" });
  expect([announced.status, codeOf(announced)]).toEqual([413, "payload_too_large"]);
  const endless = begin({ method: "POST", path: "/small", headers: { "transfer-encoding": "chunked" } });
  endless.write("12345678901");
  const [response] = (await once(endless, "response")) as [IncomingMessage];
  expect(response.statusCode).toBe(413);
  expect(response.headers.connection).toBe("close");
  endless.destroy();
  expect((await call({ method: "POST", path: "/small", body: "1234567890" })).status).toBe(200);
});

test("a body that grows beyond the limit once a part of it was forwarded may have had an effect", async () => {
  serve = (request) => void request.resume();
  const endless = begin({ method: "POST", path: "/small", headers: { "transfer-encoding": "chunked" } });
  endless.write("12345");
  await expect.poll(() => served.length).toBe(1);
  endless.write("678901");
  const [response] = (await once(endless, "response")) as [IncomingMessage];
  endless.destroy();
  expect(response.statusCode).toBe(413);
  expect(await outcome()).toMatchObject({ outcome: "unknown", errorCode: "payload_too_large" });
});

test("an upstream that is not there is 502, and nothing was done", async () => {
  const answer = await call({ method: "POST", path: "/gone", body: "x" });
  expect([answer.status, codeOf(answer)]).toEqual([502, "upstream_unavailable"]);
  expect(answer.body.toString()).not.toMatch(/ECONN|127\.0\.0\.1/);
  expect(await outcome()).toMatchObject({
    outcome: "failure",
    errorCode: "upstream_unavailable",
    httpStatus: 502,
  });
});

test("an upstream that disconnects is 502, tried once, with an unknown outcome", async () => {
  serve = (request) => request.socket.destroy();
  const answer = await call({ method: "POST", body: "x" });
  expect([answer.status, codeOf(answer)]).toEqual([502, "upstream_unavailable"]);
  expect(served).toHaveLength(1);
  expect(await outcome()).toMatchObject({ outcome: "unknown", errorCode: "upstream_unavailable" });
});

test("an upstream that speaks no HTTP is 502", async () => {
  serve = (request) => request.socket.end("rubbish\r\n\r\n");
  expect((await call({})).status).toBe(502);
});

test("a silent upstream is 504 in time, with an unknown outcome", async () => {
  serve = () => undefined;
  const answer = await call({ method: "POST", path: "/hasty", body: "x" });
  expect([answer.status, codeOf(answer)]).toEqual([504, "upstream_timeout"]);
  expect(await outcome()).toMatchObject({
    outcome: "unknown",
    errorCode: "upstream_timeout",
    httpStatus: 504,
  });
});

test("an answer that breaks off is not completed", async () => {
  serve = (_request, response) => {
    response.writeHead(200, { "content-length": 100 });
    response.write("half", () => response.destroy());
  };
  await expect(call({})).rejects.toThrow();
});

test("a client that leaves while it waits takes its upstream call with it; the audit log knows", async () => {
  const cut = new Promise<void>((resolve) => {
    serve = (request) => request.socket.once("close", () => resolve());
  });
  const request = begin({ method: "POST" });
  request.on("error", () => undefined);
  request.end("x");
  await expect.poll(() => served.length, { interval: 5 }).toBeGreaterThan(0);
  request.destroy();
  await cut;
  expect(await outcome()).toMatchObject({ outcome: "unknown", httpStatus: 499 });
});

test("a client that leaves before its call is recorded does not get it done", async () => {
  const { promise: recorded, resolve: finishRecording } = Promise.withResolvers<void>();
  onRecord = () => recorded;
  const request = begin({ method: "POST" });
  request.on("error", () => undefined);
  request.end("x");
  await expect.poll(() => gateway.entries.length).toBe(1);
  request.destroy();
  await sleep(50);
  finishRecording();
  expect(await outcome()).toMatchObject({ outcome: "failure", httpStatus: 499 });
  expect(served).toHaveLength(0);
});

test("a client that leaves half-way through its upload takes its upstream call with it", async () => {
  const cut = new Promise<void>((resolve) => {
    serve = (request) => request.resume().socket.once("close", () => resolve());
  });
  const request = begin({ method: "POST", headers: { "content-length": "1000" } });
  request.on("error", () => undefined);
  request.write("half");
  await expect.poll(() => served.length, { interval: 5 }).toBeGreaterThan(0);
  request.destroy();
  await cut;
  expect(await outcome()).toMatchObject({ outcome: "unknown" });
});

test("a client that leaves during the answer takes its upstream call with it; the outcome is known", async () => {
  const cut = new Promise<void>((resolve) => {
    serve = (request, response) => {
      request.socket.once("close", () => resolve());
      response.writeHead(201).write("first");
    };
  });
  const request = begin({ method: "POST" });
  request.on("error", () => undefined);
  request.end("x");
  const [response] = (await once(request, "response")) as [IncomingMessage];
  response.on("error", () => undefined);
  await once(response, "data");
  response.destroy();
  await cut;
  expect(await outcome()).toMatchObject({ outcome: "success", httpStatus: 201 });
});

test("a thousand clients that leave leave nothing behind", async () => {
  serve = () => undefined;
  for (let round = 0; round < 20; round += 1) {
    const sockets = Array.from({ length: 50 }, () => connect({ port, host: "127.0.0.1" }));
    const head = `POST /payments HTTP/1.1\r\nHost: ${HOST}\r\nAuthorization: Bearer user-token\r\nContent-Length: 2\r\n\r\nx`;
    for (const socket of sockets) socket.on("error", () => undefined).write(head);
    // Some leave during their call, others before it.
    const reached = served.length;
    await expect.poll(() => served.length, { interval: 5 }).toBeGreaterThan(reached + 5);
    for (const socket of sockets) socket.resetAndDestroy();
  }
  // Connections that were opened for a call that never came are idle, and close after four seconds.
  await expect.poll(() => openConnections(upstream)).toBe(0);
  expect(served.length).toBeGreaterThan(100);
  const intents = gateway.entries.filter(({ kind }) => kind === "intent");
  expect(gateway.entries.length).toBe(2 * intents.length);
  serve = (_request, response) => response.end("ok");
  expect((await call({})).status).toBe(200);
});

test("an early answer to an unread upload ends the connection, not another request's body", async () => {
  serve = (_request, response) => response.writeHead(413, { connection: "close" }).end("no");
  const head = `POST /payments HTTP/1.1\r\nHost: ${HOST}\r\nAuthorization: Bearer user-token\r\nContent-Length: 200000\r\n\r\n`;
  const { text, closed } = await exchange(port, `${head}GET /payments HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
  expect(statuses(text)).toEqual([413]);
  expect(closed).toBe(true);
  expect(served).toHaveLength(1);
});

test("a connection serves the next call after a small upload that was not read", async () => {
  serve = (_request, response) => response.end("ok");
  const post = `POST /payments HTTP/1.1\r\nHost: ${HOST}\r\nAuthorization: Bearer user-token\r\nContent-Length: 5\r\n\r\nhello`;
  const { text } = await exchange(port, post + post);
  expect(statuses(text)).toEqual([200, 200]);
});
