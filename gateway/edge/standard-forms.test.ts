import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { dpopClient } from "#tests/support/people/dpop-client.ts";
import { exchange, statuses } from "../testing/raw-socket.ts";
import { HOST, principalWith, routesOf, testGateway } from "../testing/test-gateway.ts";

const key = await dpopClient();
let served: IncomingMessage[] = [];
const upstream = createServer((request, response) => {
  served.push(request);
  response.end("ok");
});
let gateway: ReturnType<typeof testGateway>;
let port = 0;

beforeAll(async () => {
  await once(upstream.listen(0, "127.0.0.1"), "listening");
  gateway = testGateway({
    isTrustedProxy: () => true,
    allowedHosts: new Set([HOST, "[::1]"]),
    allowedOrigins: new Set(["https://app.gateway.test"]),
    sessions: { refreshSession: async () => Promise.reject(new Error("reached")) },
    verifier: {
      verify: (token) => ({
        kind: "active",
        principal: {
          ...principalWith("USER"),
          ...(token === "bound" && { confirmation: { jkt: key.jkt, x5tS256: "" } }),
        },
      }),
      refuseSession: () => undefined,
      nowMs: () => Date.now(),
      assertReady: () => undefined,
      close: () => undefined,
    },
    routes: routesOf([
      {
        prefix: "/shop",
        upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
        methods: { GET: { roles: ["USER"] }, POST: { auth: "authenticated", action: "shop.buy" } },
      },
    ]),
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});
beforeEach(() => {
  served = [];
});
afterAll(async () => {
  await gateway.app.close();
  upstream.close();
});

/** @param lines without Host. */
async function ask(target: string, lines: readonly string[] = [], host = HOST, method = "GET") {
  const head = [`${method} ${target} HTTP/1.1`, `Host: ${host}`, ...lines, "Connection: close"];
  const { text } = await exchange(port, `${head.join("\r\n")}\r\n\r\n`);
  return { status: statuses(text)[0], text };
}

const HTTPS = "X-Forwarded-Proto: https";
const user = "Authorization: Bearer user";

test.each([
  [`${HOST}:80`, []],
  [`${HOST}:443`, [HTTPS]],
  [`${HOST}.`, []],
  [`${HOST}.:443`, [HTTPS]],
  [HOST.toUpperCase(), []],
  ["[::1]:80", []],
  ["[0:0:0:0:0:0:0:1]:443", ["X-Forwarded-Proto: HTTPS"]],
])("Host %s with %j is the allowed host, for own and proxied paths", async (host, lines) => {
  expect((await ask("/auth/providers", lines, host)).status).toBe(200);
  expect((await ask("/shop/x", [...lines, user], host)).status).toBe(200);
});

test.each([
  [`${HOST}:443`, []],
  [`${HOST}:80`, [HTTPS]],
  [`${HOST}..`, []],
  [`${HOST}:8080`, []],
])("Host %s with %j is another host", async (host, lines) => {
  expect((await ask("/auth/providers", lines, host)).status).toBe(421);
});

test("a target in absolute form is served by the policy of its path, and replaces Host", async () => {
  expect((await ask(`http://${HOST}/auth/providers`, [], "evil.example")).status).toBe(200);
  expect((await ask(`http://${HOST}/auth/me`)).status).toBe(401);
  expect((await ask(`http://${HOST}/shop/x`)).status).toBe(401);
  expect(served).toEqual([]);
  expect((await ask(`HTTPS://${HOST}:443/shop/x?y=/z`, [HTTPS, user])).status).toBe(200);
  expect(served.map(({ url }) => url)).toEqual(["/shop/x?y=/z"]);
  expect((await ask(`http://${HOST}/shop/%2e%2e/x`, [user])).status).toBe(400);
  expect((await ask(`http://evil.example/shop/x`, [user])).status).toBe(421);
  expect((await ask(`https://${HOST}/shop/x`, [user])).status).toBe(421);
  expect(served).toHaveLength(1);
});

test("the audit log names what a target in absolute form is about, as of any other", async () => {
  for (const target of ["/shop/7?a", `http://${HOST}/shop/7?a`]) await ask(target, [user], HOST, "POST");
  const entries = gateway.entries.slice(-4).map(({ route, resource }) => `${route} ${resource}`);
  expect(entries).toEqual(Array(4).fill("/shop/* 7"));
});

test.each([
  ["/shop/x", `${HOST}.`, []],
  ["/shop/x", `${HOST}:80`, []],
  [`http://${HOST}:80/shop/x`, "evil.example", []],
])("a DPoP proof fits the target %s with Host %s, in each writing of its URL", async (target, host) => {
  for (const authority of [HOST, `${HOST}:80`, `${HOST}.`, HOST.toUpperCase()]) {
    const asked = await ask(target, ["Authorization: DPoP bound", `DPoP: ${await proof(authority)}`], host);
    expect(asked.status, authority).toBe(401);
    const nonce = /^dpop-nonce: (.*)\r$/im.exec(asked.text)?.[1] ?? "";
    const lines = ["Authorization: DPoP bound", `DPoP: ${await proof(authority, nonce)}`];
    expect((await ask(target, lines, host)).status, authority).toBe(200);
  }
});

function proof(authority: string, nonce?: string): Promise<string> {
  return key.proof({
    method: "GET",
    url: `http://${authority}/shop/x`,
    token: "bound",
    ...(nonce && { nonce }),
  });
}

test.each([
  [`https://${HOST}`, `${HOST}:443`, 401],
  [`https://${HOST}:443`, HOST, 401],
  [`https://${HOST}.`, `${HOST}.`, 401],
  ["https://app.gateway.test", HOST, 401],
  ["https://app.gateway.test.:443", HOST, 403],
  [`http://${HOST}`, HOST, 403],
  [`https://${HOST}:80`, HOST, 403],
])("a page of %s at Host %s refreshes its session: %d", async (origin, host, expected) => {
  const lines = [
    "X-Forwarded-Proto: HTTPS",
    `Origin: ${origin}`,
    "Gatehouse-Client: browser",
    "Content-Length: 0",
  ];
  const { status, text } = await ask("/auth/refresh", lines, host, "POST");
  expect(status).toBe(expected);
  if (expected === 403) expect(text).toContain('"code":"origin_not_allowed"');
});

test("Cookie lines are one for own paths, and two refresh tokens are 400 on two lines as on one", async () => {
  const own = ["Gatehouse-Client: browser", `Origin: http://${HOST}`, "Content-Length: 0"];
  const cookie = (value: string) => `Cookie: __Host-gatehouse-refresh=${value}`;
  const { status } = await ask("/auth/providers", ["Cookie: a=1", "Cookie: b=2"]);
  expect(status).toBe(200);
  const once = await ask("/auth/refresh", [...own, "Cookie: a=1", cookie("a.b.c")], HOST, "POST");
  expect(once.status).toBe(500);
  const twice = await ask("/auth/refresh", [...own, cookie("a.b.c"), cookie("a.b.c")], HOST, "POST");
  expect(twice.status).toBe(400);
});

test("an upstream gets one Cookie line, without the gateway's own cookies", async () => {
  await ask("/shop/x", [user, "Cookie: a=1", "cookie: gatehouse_device=x; b=2", "COOKIE: c=3"]);
  const raw = served[0]?.rawHeaders ?? [];
  expect(raw.filter((_value, index) => raw[index - 1]?.toLowerCase() === "cookie")).toEqual([
    "a=1; b=2; c=3",
  ]);
});
