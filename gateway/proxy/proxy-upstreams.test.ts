import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { ProxyTable } from "../routing/proxy-table.ts";
import { HOST, routesOf, testGateway, verifierOfUsers } from "../testing/test-gateway.ts";

const open: { close(): unknown }[] = [];
let answered: string[];

beforeEach(() => {
  answered = [];
});

afterEach(async () => {
  for (const each of open.splice(0)) await each.close();
});

const portOf = (server: Server) => (server.address() as AddressInfo).port;

/** An upstream that answers with its name and what it was asked. */
async function upstream(name: string, status = 200): Promise<string> {
  const server = createServer(async (request, response) => {
    answered.push(name);
    let body = "";
    for await (const chunk of request) body += chunk;
    response.writeHead(status).end(`${name} ${request.url} ${body}`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  open.unshift({ close: () => server.closeAllConnections() ?? server.close() });
  return `http://127.0.0.1:${portOf(server)}`;
}

async function nobody(): Promise<string> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${portOf(server)}`;
  server.close();
  return url;
}

const ROLES = { roles: ["USER"] };

async function serve(route: object, overrides: Parameters<typeof testGateway>[0] = {}) {
  const metrics = createMetrics("gateway");
  const routes = routesOf([{ prefix: "/a", timeoutMs: 10_000, methods: { GET: ROLES }, ...route }]);
  const proxies = new ProxyTable(routes, metrics);
  const gateway = testGateway({ proxies, metrics, ...overrides });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  open.unshift({ close: () => gateway.app.close() });
  const call = async (path = "/a", init: RequestInit & { headers?: Record<string, string> } = {}) => {
    const response = await fetch(`http://127.0.0.1:${portOf(gateway.app.server)}${path}`, {
      ...init,
      headers: { authorization: "Bearer user-token", ...init.headers },
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  const port = portOf(gateway.app.server);
  return { ...gateway, proxies, metrics, call, port };
}

/** `fetch` writes its own Host. */
function hosts(): { allowedHosts: ReadonlySet<string> } {
  return { allowedHosts: { has: () => true } as unknown as ReadonlySet<string> };
}

test("upstreams take turns", async () => {
  const { call } = await serve({ upstreams: [await upstream("1"), await upstream("2")] }, hosts());
  for (const _ of [1, 2, 3, 4]) expect((await call()).status).toBe(200);
  expect(answered).toEqual(["1", "2", "1", "2"]);
});

test("where no connection comes about the next upstream is asked, also with a body, and soon only that", async () => {
  const route = {
    upstreams: [await nobody(), await upstream("2")],
    methods: { POST: { ...ROLES, action: "a.make" } },
  };
  const { call, metrics } = await serve(route, hosts());
  for (let turn = 0; turn < 12; turn += 1) {
    const { status, text } = await call("/a", { method: "POST", body: "hello" });
    expect([status, text]).toEqual([200, "2 /a hello"]);
  }
  expect(await metrics.render()).toMatch(new RegExp(`circuit\\{upstream="${route.upstreams[0]}".*\\} 2`));
});

test("an upstream that failed five times is not asked for a while: 502 at once", async () => {
  let isBroken = true;
  const server = createServer((request, response) => {
    answered.push("1");
    if (isBroken) request.socket.destroy();
    else response.end("well");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  open.unshift({ close: () => server.closeAllConnections() ?? server.close() });
  const { call } = await serve(
    { upstream: `http://127.0.0.1:${portOf(server)}` },
    { ...hosts(), verifier: verifierOfUsers() },
  );
  const as = (user: string) => call("/a", { headers: { authorization: `Bearer ${user}` } });
  for (let turn = 0; turn < 12; turn += 1) expect((await as("same")).status).toBe(502);
  // One user's failures are no reason to refuse the others.
  expect(answered).toHaveLength(12);
  for (const user of ["b", "c", "d", "e", "f"]) expect((await as(user)).status).toBe(502);
  expect(answered).toHaveLength(15);
  isBroken = false;
  await expect.poll(async () => (await call()).status).toBe(200);
});

test("a call that an upstream has seen is not tried at the next one", async () => {
  const server = createServer((request) => {
    answered.push("1");
    request.socket.destroy();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  open.unshift({ close: () => server.close() });
  const upstreams = [`http://127.0.0.1:${portOf(server)}`, await upstream("2")];
  const { call } = await serve({ upstreams }, hosts());
  expect((await call()).status).toBe(502);
  expect(answered).toEqual(["1"]);
});

describe("a kept-alive connection that the upstream closes with a call on it", () => {
  /** Answers one call a connection, and closes it with the next one unread or unanswered. */
  async function closing(how: "end" | "reset"): Promise<{ url: string; calls: string[] }> {
    const calls: string[] = [];
    const server = createTcpServer((socket) => {
      let seen = 0;
      socket.on("error", () => undefined);
      socket.on("data", (bytes) => {
        calls.push(bytes.toString("latin1").split(" ", 1)[0] ?? "");
        seen += 1;
        if (seen === 1) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        else if (how === "end") socket.end();
        else socket.resetAndDestroy();
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    open.unshift({ close: () => server.close() });
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, calls };
  }

  test.each(["end", "reset"] as const)("a GET is sent once more (%s)", async (how) => {
    const { url, calls } = await closing(how);
    const { call } = await serve({ upstream: url }, hosts());
    for (const _ of [1, 2, 3]) expect((await call()).status).toBe(200);
    // The second came twice: over the connection that was closed, and over another.
    expect(calls).toEqual(["GET", "GET", "GET", "GET"]);
  });

  test("a call that changes something is not", async () => {
    const { url, calls } = await closing("end");
    const methods = {
      GET: ROLES,
      POST: { ...ROLES, action: "a.make" },
      DELETE: { ...ROLES, action: "a.end" },
    };
    const { call } = await serve({ upstream: url, methods }, hosts());
    expect((await call()).status).toBe(200);
    expect((await call("/a", { method: "DELETE" })).status).toBe(502);
    expect((await call()).status).toBe(200);
    expect((await call("/a", { method: "POST", body: "x" })).status).toBe(502);
    expect(calls).toEqual(["GET", "DELETE", "GET", "POST"]);
  });

  test("a GET is not sent a third time", async () => {
    const calls: number[] = [];
    const server = createTcpServer((socket) => {
      socket.on("error", () => undefined);
      socket.on("data", () => {
        calls.push(0);
        // From the second call on each has a byte of an answer, and no more.
        if (calls.length === 1) socket.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        else socket.end("H");
      });
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    open.unshift({ close: () => server.close() });
    const { call } = await serve(
      { upstream: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
      hosts(),
    );
    expect((await call()).status).toBe(200);
    expect((await call()).status).toBe(502);
    expect(calls.length).toBeLessThanOrEqual(3);
  });
});

test("an upstream sees the path without the prefix where the route says so", async () => {
  const { call } = await serve({ upstream: await upstream("1"), stripPrefix: true }, hosts());
  expect((await call("/v1/a/b?x=1")).text).toBe("1 /b?x=1 ");
  expect((await call("/a?x=1")).text).toBe("1 /?x=1 ");
  expect((await call("/a")).text).toBe("1 / ");
});

test("a call as a whole ends in time where the route says so", async () => {
  const server = createServer((_request, response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write("x"), 50);
    response.once("close", () => clearInterval(timer));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  open.unshift({ close: () => server.closeAllConnections() ?? server.close() });
  const { call } = await serve(
    { upstream: `http://127.0.0.1:${portOf(server)}`, totalTimeoutMs: 300 },
    hosts(),
  );
  await expect(call()).rejects.toThrow();
});

test("a public method needs no token and forwards no identity; the others still do", async () => {
  const methods = { GET: { auth: "public" }, POST: { auth: "authenticated", action: "a.make" } };
  const { call } = await serve({ upstream: await upstream("1"), methods }, hosts());
  const nobodys = { authorization: "" };
  expect((await call("/a", { headers: nobodys })).status).toBe(200);
  expect((await call("/a", { method: "POST", headers: nobodys })).status).toBe(401);
  expect(
    (await call("/a", { method: "POST", headers: { authorization: "Bearer auditor-token" } })).status,
  ).toBe(200);
});

test("routes change while calls run: none is dropped, new ones take the new routes", async () => {
  const [first, second] = [await upstream("1"), await upstream("2")];
  const { call, proxies } = await serve({ upstream: first }, hosts());
  let isOver = false;
  const statuses = new Set<number>();
  const load = Promise.all(
    Array.from({ length: 8 }, async () => {
      while (!isOver) statuses.add((await call()).status);
    }),
  );
  for (let change = 0; change < 20; change += 1) {
    const upstreamUrl = change % 2 === 0 ? second : first;
    proxies.replace(routesOf([{ prefix: "/a", upstream: upstreamUrl, methods: { GET: ROLES } }]));
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  isOver = true;
  await load;
  expect([...statuses]).toEqual([200]);
  expect(new Set(answered)).toEqual(new Set(["1", "2"]));
  proxies.replace(routesOf([{ prefix: "/b", upstream: second, methods: { GET: ROLES } }]));
  expect([(await call("/a")).status, (await call("/b")).status]).toEqual([404, 200]);
});

const APP = "https://app.example.com";

test("a listed origin may call, by name; another gets no CORS headers", async () => {
  const route = {
    upstream: await upstream("1"),
    allowedOrigins: [APP],
    methods: { GET: ROLES, DELETE: { ...ROLES, action: "a.b" } },
  };
  const { call } = await serve(route, hosts());
  const preflight = (origin: string) =>
    call("/a/7", {
      method: "OPTIONS",
      headers: {
        origin,
        authorization: "",
        "access-control-request-method": "DELETE",
        "access-control-request-headers": "authorization,x-own",
      },
    });
  const good = await preflight(APP);
  expect(good.status).toBe(204);
  expect(Object.fromEntries(good.headers)).toMatchObject({
    "access-control-allow-origin": APP,
    "access-control-allow-methods": "DELETE, GET, HEAD",
    "access-control-allow-headers": "authorization,x-own",
    vary: "origin",
  });
  for (const origin of [`${APP}.evil.test`, "https://APP.example.com", "http://app.example.com", "null"]) {
    const { headers } = await preflight(origin);
    expect([headers.get("access-control-allow-origin"), headers.get("vary")]).toEqual([null, "origin"]);
  }
  const answer = await call("/a", { headers: { origin: APP } });
  expect(answer.headers.get("access-control-allow-origin")).toBe(APP);
  const refused = await call("/a", { headers: { origin: APP, authorization: "" } });
  expect([refused.status, refused.headers.get("access-control-allow-origin")]).toEqual([401, APP]);
});

test("every origin means: without credentials", async () => {
  const { call } = await serve({ upstream: await upstream("1"), allowedOrigins: ["*"] }, hosts());
  const { headers } = await call("/a", { headers: { origin: APP } });
  expect(headers.get("access-control-allow-origin")).toBe("*");
  expect(headers.get("access-control-allow-credentials")).toBeNull();
});

test("our own paths have a list of their own", async () => {
  const { call } = await serve(
    { upstream: await upstream("1") },
    { ...hosts(), allowedOrigins: new Set([APP]) },
  );
  const own = await call("/auth/me", { headers: { origin: APP, authorization: "" } });
  expect(own.headers.get("access-control-allow-origin")).toBe(APP);
  const other = await call("/a", { headers: { origin: APP } });
  expect(other.headers.get("access-control-allow-origin")).toBeNull();
});

test("a path with thousands of slashes costs no more look-ups than the longest prefix has", () => {
  const proxies = new ProxyTable(
    routesOf([{ prefix: "/a", upstream: `http://${HOST}`, methods: { GET: ROLES } }]),
    createMetrics("gateway"),
  );
  const path = "/b".repeat(4_000);
  const lookUps = vi.spyOn(Map.prototype, "get");
  try {
    expect(proxies.find(path)).toBeUndefined();
    // Only `/b` and the whole path: no prefix is longer than `/v1/a`.
    expect(lookUps.mock.calls.length).toBeLessThanOrEqual(3);
  } finally {
    lookUps.mockRestore();
  }
});
