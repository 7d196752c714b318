import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import type { Verification } from "#token-client/principal.ts";
import { HOST, principalWith, routesOf, SESSION_ID, send, testGateway } from "../testing/test-gateway.ts";

const A = "https://payments.example";
const API_KEY = `gh_${"0".repeat(32)}_${"A".repeat(43)}`;

const OTHERS = Array.from({ length: 17 }, (_, index) => `other-${index}`);

let seen: IncomingMessage[] = [];
const upstream = createServer((request, response) => {
  seen.push(request);
  request.resume().once("end", () => response.end("ok"));
});
upstream.on("upgrade", (request, socket) => {
  seen.push(request);
  socket.end("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
});
let origin = "";
/** What token-service is asked to exchange, and its answer. */
let asked: { token: string; audience: string; budgetMs: number }[] = [];
let banned = new Set<string>();
let sessions = new Map<string, string>();
let answer: () => Promise<{ accessToken: string; keyId: string; expiresInMs: number }>;

beforeAll(async () => {
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
});

beforeEach(() => {
  seen = [];
  asked = [];
  banned = new Set();
  sessions = new Map();
  answer = async () => ({ accessToken: `exchanged-${asked.length}`, keyId: "key", expiresInMs: 60_000 });
});

afterAll(() => {
  upstream.closeAllConnections();
  upstream.close();
});

function verify(token: string): Verification {
  const sessionId = sessions.get(token) ?? SESSION_ID;
  if (token !== API_KEY)
    return { kind: "active", principal: { ...principalWith("USER"), sessionId, userId: token } };
  const client = { kind: "client", role: "", scopes: ["payments:read"], keyId: "" } as const;
  return { kind: "active", principal: { ...principalWith(""), ...client, sessionId } };
}

function start(options: { maxUpstreamTokens?: number } = {}) {
  const methods = {
    GET: { permissions: ["payments:read"] },
    POST: { permissions: ["payments:read"], action: "payments.create" },
    DELETE: { auth: "public", action: "payments.forget" },
  };
  const metrics = createMetrics("gateway");
  const gateway = testGateway({
    routes: routesOf([
      { prefix: "/plain", upstream: origin, methods, websocket: true },
      { prefix: "/a", upstream: origin, methods, websocket: true, audience: A },
      { prefix: "/also-a", upstream: origin, methods, audience: A },
      { prefix: "/b", upstream: origin, methods, audience: "ledger" },
      { prefix: "/none", upstream: origin, methods, websocket: true, passToken: false },
      ...OTHERS.map((name) => ({ prefix: `/${name}`, upstream: origin, methods, audience: name })),
    ]),
    verifier: {
      verify,
      refuseSession: () => undefined,
      nowMs: () => Date.now(),
      assertReady: () => undefined,
      close: () => undefined,
    },
    sessions: {
      exchangeToken: async (request, { deadlineMs }) => {
        asked.push({ ...request, budgetMs: deadlineMs - Date.now() });
        return answer();
      },
    },
    isKeyBanned: (keyId) => banned.has(keyId),
    metrics,
    ...options,
  });
  const tokenAt = async (url: string, token: string, method: "GET" | "POST" | "DELETE" = "GET") => {
    const before = seen.length;
    const { statusCode } = await send(gateway.app, { method, url, token });
    return statusCode === 200 ? seen[before]?.headers.authorization : statusCode;
  };
  return { ...gateway, metrics, tokenAt };
}

const asks = () => asked.map(({ token, audience }) => `${token} ${audience}`);

async function metric(metrics: ReturnType<typeof createMetrics>, line: RegExp): Promise<string | undefined> {
  return line.exec(await metrics.render())?.[1];
}

test("a route with an audience gets its own token, from one exchange for each token and audience", async () => {
  const { tokenAt } = start();
  for (const url of ["/a/1", "/also-a", "/v1/a?x=1"])
    expect(await tokenAt(url, "ada")).toBe("Bearer exchanged-1");
  expect(await tokenAt("/a", "ada", "POST")).toBe("Bearer exchanged-1");
  expect(await tokenAt("/b", "ada")).toBe("Bearer exchanged-2");
  expect(await tokenAt("/a", "bob")).toBe("Bearer exchanged-3");
  expect(asks()).toEqual([`ada ${A}`, "ada ledger", `bob ${A}`]);
  expect(seen[0]?.headers).toMatchObject({ "x-user-id": "ada", "x-session-id": SESSION_ID });
});

test("a route without one passes the caller's token on, and asks nobody", async () => {
  const { tokenAt } = start();
  expect(await tokenAt("/plain", "ada")).toBe("Bearer ada");
  expect(await tokenAt("/plain", API_KEY)).toBe(`Bearer ${API_KEY}`);
  expect(asked).toEqual([]);
});

test("passToken: false: no token of any kind, and the identity as always", async () => {
  const { app } = start();
  for (const token of ["ada", API_KEY]) {
    for (const method of ["GET", "POST"] as const)
      expect((await send(app, { method, url: "/none", token })).statusCode).toBe(200);
  }
  expect(seen.map(({ headers }) => headers.authorization)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  expect(JSON.stringify(seen.map(({ rawHeaders }) => rawHeaders))).not.toContain("Bearer");
  expect(seen[0]?.headers).toMatchObject({ "x-user-id": "ada", "x-session-id": SESSION_ID });
  expect(seen[2]?.headers).toMatchObject({ "x-scope": "payments:read", "x-session-id": SESSION_ID });
  expect(asked).toEqual([]);
});

test("a public method gets none either", async () => {
  const { tokenAt } = start();
  for (const url of ["/a", "/none"]) expect(await tokenAt(url, "ada", "DELETE")).toBeUndefined();
  expect(asked).toEqual([]);
});

test.each([
  ["/plain", "Bearer ada"],
  ["/a", "Bearer exchanged-1"],
  ["/none", undefined],
])("a WebSocket at %s gets %s", async (path, expected) => {
  const { app } = start();
  await app.listen({ port: 0, host: "127.0.0.1" });
  const socket = connect({ port: (app.server.address() as AddressInfo).port, host: "127.0.0.1" });
  const lines = [`GET ${path} HTTP/1.1`, `Host: ${HOST}`, "Connection: Upgrade", "Upgrade: websocket"];
  socket.write(`${[...lines, "Authorization: Bearer ada"].join("\r\n")}\r\n\r\n`);
  const [chunk] = await once(socket, "data");
  expect(String(chunk)).toMatch(/^HTTP\/1.1 101 /);
  expect(seen[0]?.headers.authorization).toBe(expected);
  socket.destroy();
});

test("a WebSocket whose token cannot be exchanged is refused", async () => {
  answer = () => Promise.reject(new DomainError("service_unavailable"));
  const { app } = start();
  await app.listen({ port: 0, host: "127.0.0.1" });
  const socket = connect({ port: (app.server.address() as AddressInfo).port, host: "127.0.0.1" });
  const lines = ["GET /a HTTP/1.1", `Host: ${HOST}`, "Connection: Upgrade", "Upgrade: websocket"];
  socket.write(`${[...lines, "Authorization: Bearer ada"].join("\r\n")}\r\n\r\n`);
  const [chunk] = await once(socket, "data");
  expect(String(chunk)).toMatch(/^HTTP\/1.1 503 /);
  expect(seen).toEqual([]);
  socket.destroy();
});

test("an API key is exchanged for a token of its client, so that no upstream sees it", async () => {
  const { tokenAt } = start();
  expect(await tokenAt("/a", API_KEY)).toBe("Bearer exchanged-1");
  expect(await tokenAt("/a", API_KEY)).toBe("Bearer exchanged-1");
  expect(JSON.stringify(seen.map(({ rawHeaders }) => rawHeaders))).not.toContain("gh_");
});

test("the token of an API key is renewed before it ends, the token of a token is not", async () => {
  answer = async () => ({ accessToken: `exchanged-${asked.length}`, keyId: "key", expiresInMs: 29_000 });
  const { tokenAt } = start();
  for (const call of [1, 2]) expect(await tokenAt("/a", API_KEY)).toBe(`Bearer exchanged-${call}`);
  for (const _call of [1, 2]) expect(await tokenAt("/a", "ada")).toBe("Bearer exchanged-3");
});

test("an API key that is live again under another credential is exchanged again", async () => {
  const { tokenAt } = start();
  await tokenAt("/a", API_KEY);
  sessions.set(API_KEY, "another");
  expect(await tokenAt("/a", API_KEY)).toBe("Bearer exchanged-2");
});

test("calls at once share one exchange", async () => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const give = answer;
  answer = async () => {
    await held;
    return give();
  };
  const { tokenAt } = start();
  const calls = Array.from({ length: 20 }, () => tokenAt("/a", "ada"));
  await expect.poll(() => asked.length).toBe(1);
  release();
  expect(new Set(await Promise.all(calls))).toEqual(new Set(["Bearer exchanged-1"]));
  expect(asked).toHaveLength(1);
  expect(asked[0]?.budgetMs).toBeLessThanOrEqual(800);
});

test("more exchanges at once than their maximum are refused, and not queued", async () => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const give = answer;
  answer = async () => {
    await held;
    return give();
  };
  const { tokenAt } = start();
  const calls = Array.from({ length: 251 }, (_, index) => tokenAt("/a", `user-${index}`));
  await expect.poll(() => asked.length).toBe(250);
  expect(await Promise.race(calls)).toBe(429);
  release();
  await Promise.all(calls);
  expect(asked).toHaveLength(250);
});

test("a token is not used for longer than token-service said", async () => {
  const { tokenAt } = start();
  await tokenAt("/a", "ada");
  const real = performance.now.bind(performance);
  vi.spyOn(performance, "now").mockImplementation(() => real() + 60_000);
  try {
    expect(await tokenAt("/a", "ada")).toBe("Bearer exchanged-2");
  } finally {
    vi.restoreAllMocks();
  }
});

test("a token whose signing key is banned is exchanged again, also if the ban was faster than the answer", async () => {
  const { tokenAt } = start();
  await tokenAt("/a", "ada");
  banned.add("key");
  expect(await tokenAt("/a", "ada")).toBe("Bearer exchanged-2");
  answer = async () => ({ accessToken: `exchanged-${asked.length}`, keyId: "new", expiresInMs: 60_000 });
  for (const _call of [1, 2]) expect(await tokenAt("/a", "ada")).toBe("Bearer exchanged-3");
});

test.each<[string, () => Promise<never>, number, ErrorCode]>([
  ["is away", () => Promise.reject(new DomainError("service_unavailable")), 503, "service_unavailable"],
  [
    "does not know the call",
    () => Promise.reject(new DomainError("internal_error")),
    503,
    "service_unavailable",
  ],
  [
    "refuses the audience",
    () => Promise.reject(new DomainError("validation_failed")),
    503,
    "service_unavailable",
  ],
  [
    "refuses the gateway",
    () => Promise.reject(new DomainError("caller_not_allowed")),
    503,
    "service_unavailable",
  ],
  ["fails otherwise", () => Promise.reject(new Error("odd")), 503, "service_unavailable"],
  ["has seen a revocation", () => Promise.reject(new DomainError("token_invalid")), 401, "token_invalid"],
  ["has another clock", () => Promise.reject(new DomainError("token_expired")), 401, "token_expired"],
])("token-service %s: nothing is sent, and the next call asks again", async (_name, fail, status, code) => {
  const give = answer;
  answer = fail;
  const { app, tokenAt, entries, metrics } = start();
  for (const method of ["GET", "POST"] as const) {
    const response = await send(app, { method, url: "/a", token: "ada" });
    expect(response.statusCode).toBe(status);
    expect(response.json()).toMatchObject({ success: false, error: { code } });
  }
  expect(seen).toEqual([]);
  const outcome = { kind: "outcome", outcome: "failure", httpStatus: status, errorCode: code };
  expect(entries.at(-1)).toMatchObject(outcome);
  const result = status === 401 ? "refused" : "failed";
  const counted = new RegExp(`gatehouse_token_exchanges_total\\{[^}]*result="${result}"[^}]*\\} (\\d+)`);
  expect(await metric(metrics, counted)).toBe("2");
  answer = give;
  expect(await tokenAt("/a", "ada")).toBe("Bearer exchanged-3");
});

test("an answer without a token is a failure, not a call without one", async () => {
  answer = async () => ({ accessToken: "", keyId: "key", expiresInMs: 60_000 });
  const { tokenAt } = start();
  expect(await tokenAt("/a", "ada")).toBe(503);
  expect(seen).toEqual([]);
});

test("memory is bounded: the token that was unused for longest is exchanged again", async () => {
  const { tokenAt, metrics } = start({ maxUpstreamTokens: 2 });
  for (const token of ["a", "b", "c", "c", "a"]) await tokenAt("/a", token);
  expect(asks()).toEqual([`a ${A}`, `b ${A}`, `c ${A}`, `a ${A}`]);
  expect(await metric(metrics, /gatehouse_upstream_tokens\{[^}]*\} (\d+)/)).toBe("2");
});

test("so are the audiences of one token: of seventeen, the first is exchanged again", async () => {
  const { tokenAt } = start();
  for (const name of OTHERS) await tokenAt(`/${name}`, "ada");
  await tokenAt("/other-16", "ada");
  await tokenAt("/other-1", "ada");
  expect(asked).toHaveLength(17);
  await tokenAt("/other-0", "ada");
  expect(asked).toHaveLength(18);
});
