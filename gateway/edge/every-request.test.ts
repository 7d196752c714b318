import { METHODS } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { exchange, statuses } from "../testing/raw-socket.ts";
import { account, ada, completedLogin, HOST, routesOf, testGateway } from "../testing/test-gateway.ts";

// Whatever the parser takes is answered by the gateway itself: with a request id, in the documented shape, and never as a
// defect. Fallbacks of the framework have neither.

let upstreamCalls = 0;
const upstream = (await import("node:http")).createServer((_request, response) => {
  upstreamCalls += 1;
  response.end("from upstream");
});
let gateway: ReturnType<typeof testGateway>;
let port = 0;

beforeAll(async () => {
  await new Promise<void>((resolve) => upstream.listen(0, "127.0.0.1", resolve));
  const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  gateway = testGateway({
    identity: {
      getUser: async () => account,
      login: async () => completedLogin(),
    },
    routes: routesOf([
      { prefix: "/open", upstream: origin, methods: { GET: { auth: "public" } } },
      { prefix: "/loose", upstream: origin, strictPaths: false, methods: { GET: { auth: "public" } } },
      {
        prefix: "/socket",
        upstream: origin,
        websocket: true,
        methods: { GET: { auth: "public", action: "socket.open" } },
      },
    ]),
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});
afterAll(async () => {
  await gateway.app.close();
  upstream.close();
});

/** Methods of the real time streaming protocol, which Node's parser takes although `METHODS` lacks them. */
const RTSP_METHODS = [
  "DESCRIBE",
  "ANNOUNCE",
  "SETUP",
  "PLAY",
  "PAUSE",
  "TEARDOWN",
  "GET_PARAMETER",
  "SET_PARAMETER",
  "REDIRECT",
  "RECORD",
  "FLUSH",
];
const PATHS = ["/auth/login", "/auth/me", "/open", "/open/7", "/nowhere", "/", "/docs", "/%zz"];

/** Everything that came back, answer by answer. */
function answersIn(text: string): string[] {
  return text
    .split(/(?=HTTP\/1\.1 \d{3} )/)
    .filter((answer) => answer !== "" && !answer.startsWith("HTTP/1.1 100"));
}

/** What of these answers the gateway did not write itself. */
function strange(text: string, method = ""): string[] {
  return answersIn(text).filter((answer) => {
    const status = statuses(answer)[0] ?? 0;
    const isOurs = /^x-request-id: [0-9a-f-]{36}\r$/im.test(answer);
    const isAnswered = status < 400 || method === "HEAD" || /"error":\{"code":"[a-z_]+"/.test(answer);
    return !isOurs || !isAnswered || status === 500;
  });
}

function head(line: string, ...headers: string[]): string {
  return [line, `Host: ${HOST}`, ...headers, "", ""].join("\r\n");
}

const nothing = `GET /auth/me HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`;

const VERSIONS = ["HTTP/1.1", "HTTP/1.0", "RTSP/1.0", "ICE/1.0", "HTTP/2.0", "HTTP/0.9"];
const BODIES = [
  { headers: ["Content-Length: 2"], body: "{}" },
  { headers: ["Content-Length: 2", "Content-Type: application/json"], body: "{}" },
  { headers: ["Transfer-Encoding: chunked"], body: "2\r\n{}\r\n0\r\n\r\n" },
  { headers: ["Connection: Upgrade", "Upgrade: websocket"], body: "" },
  { headers: ["Connection: Upgrade", "Upgrade: h2c", "Content-Length: 2"], body: "{}" },
  { headers: ["Expect: 100-continue", "Content-Length: 2"], body: "{}" },
];

test.each([...METHODS, ...RTSP_METHODS])(
  "%s is answered by the gateway on every path, in every form",
  async (method) => {
    const plain = PATHS.flatMap((path) =>
      VERSIONS.map((version) => head(`${method} ${path} ${version}`, "Connection: close")),
    );
    const withBodies = PATHS.flatMap((path) =>
      BODIES.map(({ headers, body }) => head(`${method} ${path} HTTP/1.1`, ...headers) + body + nothing),
    );
    const results = await Promise.all(
      [...plain, ...withBodies].map(async (bytes) => ({ bytes, ...(await exchange(port, bytes, 20_000)) })),
    );
    const found = results.flatMap(({ bytes, text, closed }) => {
      const line = JSON.stringify(bytes.slice(0, 120));
      const what = strange(text, method).map((answer) => `${line}: ${answer.slice(0, 300)}`);
      if (answersIn(text).length === 0) what.push(`${line}: no answer`);
      if (!closed) what.push(`${line}: stays open`);
      return what;
    });
    expect(found).toEqual([]);
  },
);

test("a method that the gateway does not know is 501, ends the connection and is no defect", async () => {
  for (const method of RTSP_METHODS) {
    const { text, closed } = await exchange(port, head(`${method} /auth/login RTSP/1.0`) + nothing);
    expect(statuses(text)).toEqual([501]);
    expect(text).toContain('"code":"not_implemented"');
    expect(closed).toBe(true);
  }
  expect(gateway.log()).not.toMatch(/fastify bug|request failed unexpectedly/);
});

test("CONNECT is answered, and what follows it is not", async () => {
  const { text, closed } = await exchange(port, head("CONNECT example.com:443 HTTP/1.1") + nothing);
  expect(statuses(text)).toEqual([501]);
  expect(text).toContain('"code":"not_implemented"');
  expect(closed).toBe(true);
});

test.each(["HTTP/2.0", "HTTP/0.9"])("%s is 505, and nothing is served", async (version) => {
  const { text, closed } = await exchange(port, head(`GET /auth/me ${version}`) + nothing);
  expect(statuses(text)).toEqual([505]);
  expect(text).toContain('"code":"http_version_not_supported"');
  expect(closed).toBe(true);
});

test("a request line without a version is refused", async () => {
  const { text } = await exchange(port, `GET /openapi.json\r\nHost: ${HOST}\r\n\r\n`);
  expect(statuses(text)).toEqual([505]);
});

test.each([
  "gzip, chunked",
  "deflate, chunked",
  "x-gzip,chunked",
  "identity, chunked",
  "xchunked",
  "chunked;q=1, chunked",
])("a body in the transfer coding %s is 501 and reaches no upstream", async (coding) => {
  const before = upstreamCalls;
  for (const path of ["/open", "/auth/login"]) {
    const bytes = `${head(`POST ${path} HTTP/1.1`, `Transfer-Encoding: ${coding}`)}2\r\n{}\r\n0\r\n\r\n${nothing}`;
    const { text, closed } = await exchange(port, bytes);
    // Of a list that names `chunked` twice the parser says so itself.
    expect(["400", "501"]).toContain(String(statuses(text)));
    if (coding !== "chunked;q=1, chunked") expect(text).toContain('"code":"not_implemented"');
    expect(closed).toBe(true);
  }
  expect(upstreamCalls).toBe(before);
});

test.each([
  { what: "h2c on a path of ours", path: "/auth/me", upgrade: "h2c", status: 401 },
  { what: "h2c on a proxied path", path: "/open", upgrade: "h2c", status: 200 },
  { what: "a WebSocket where the route has none", path: "/open", upgrade: "websocket", status: 200 },
  { what: "a WebSocket on an unknown path", path: "/nowhere", upgrade: "websocket", status: 404 },
])(
  "$what: the upgrade is not taken, and the connection ends with its answer",
  async ({ path, upgrade, status }) => {
    const before = gateway.entries.length;
    const first = head(`GET ${path} HTTP/1.1`, "Connection: Upgrade", `Upgrade: ${upgrade}`);
    const json = JSON.stringify({ email: ada.email, password: "x" });
    const second = head(
      "POST /auth/login HTTP/1.1",
      "Content-Type: application/json",
      `Content-Length: ${json.length}`,
    );
    const { text, closed } = await exchange(port, first + second + json);
    expect(statuses(text)).toEqual([status]);
    expect(text).toMatch(/^connection: close\r$/im);
    expect(closed).toBe(true);
    expect(gateway.entries.length).toBe(before);
  },
);

test("a header's name of more than 256 characters is 431", async () => {
  const at = await exchange(port, head("GET /open HTTP/1.1", `${"a".repeat(256)}: 1`, "Connection: close"));
  expect(statuses(at.text)).toEqual([200]);
  const above = await exchange(port, head("GET /open HTTP/1.1", `${"a".repeat(257)}: 1`) + nothing);
  expect(statuses(above.text)).toEqual([431]);
  expect(above.text).toContain('"code":"headers_too_large"');
});

test.each(["TRACE", "PROPFIND", "PURGE", "QUERY", "POST"])(
  "%s of a proxied path is 405 with its methods",
  async (method) => {
    const { text } = await exchange(port, head(`${method} /open/7 HTTP/1.1`, "Connection: close"));
    expect(statuses(text)).toEqual([405]);
    expect(text).toMatch(/^allow: GET, HEAD, OPTIONS\r$/im);
  },
);

test("QUERY without a type is answered as other methods are", async () => {
  const own = await exchange(port, head("QUERY /auth/login HTTP/1.1", "Connection: close"));
  expect(statuses(own.text)).toEqual([405]);
  const unknown = await exchange(port, head("QUERY /nowhere HTTP/1.1", "Connection: close"));
  expect(statuses(unknown.text)).toEqual([404]);
});

describe("Expect: 100-continue is not granted", () => {
  const expecting = (path: string, length: number, ...headers: string[]) =>
    head(
      `POST ${path} HTTP/1.1`,
      "Expect: 100-continue",
      "Content-Type: application/json",
      `Content-Length: ${length}`,
      ...headers,
    );

  test.each([
    { what: "a body beyond the limit", bytes: expecting("/auth/login", 16 * 1024 + 1), status: 413 },
    { what: "an unknown path", bytes: expecting("/nowhere", 2), status: 404 },
    { what: "an unknown path below one of ours", bytes: expecting("/auth/a/b/c", 2), status: 404 },
    { what: "a method that a path of ours lacks", bytes: expecting("/auth/me", 2), status: 405 },
    { what: "a method that a proxied path lacks", bytes: expecting("/open", 2), status: 405 },
    { what: "a coded body", bytes: expecting("/auth/login", 2, "Content-Encoding: gzip"), status: 415 },
  ])("$what: $status", async ({ bytes, status }) => {
    const { text, closed } = await exchange(port, bytes);
    expect(statuses(text)).toEqual([status]);
    expect(closed).toBe(true);
  });
});

test("coded bodies on paths of ours are 415; identity is no coding", async () => {
  const json = JSON.stringify({ email: ada.email, password: "x" });
  const post = (coding: string) =>
    head(
      "POST /auth/login HTTP/1.1",
      "Content-Type: application/json",
      `Content-Length: ${json.length}`,
      `Content-Encoding: ${coding}`,
      "Connection: close",
    ) + json;
  for (const coding of ["gzip", "br", "identity, gzip"]) {
    const { text } = await exchange(port, post(coding));
    expect(statuses(text)).toEqual([415]);
    expect(text).toContain('"code":"unsupported_media_type"');
  }
  expect(statuses((await exchange(port, post("Identity"))).text)).toEqual([200]);
});

test("an upgrade behind another request on the same connection ends that connection, not the process", async () => {
  const first = head("GET /open HTTP/1.1");
  const upgrade = head(
    "GET /socket HTTP/1.1",
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
  );
  await exchange(port, first + upgrade);
  const { text } = await exchange(port, head("GET /open HTTP/1.1", "Connection: close"));
  expect(statuses(text)).toEqual([200]);
});

test.each(["/%252e%252e/x", "/%ef%bc%8e%ef%bc%8e/x", "/7;admin=1", "/7%3badmin=1"])(
  "a path that an upstream may read in two ways, %s, is 400 unless its route opts out",
  async (path) => {
    const before = upstreamCalls;
    const strict = await exchange(port, head(`GET /open${path} HTTP/1.1`) + nothing);
    expect(statuses(strict.text)).toEqual([400]);
    expect(upstreamCalls).toBe(before);
    const loose = await exchange(port, head(`GET /loose${path} HTTP/1.1`, "Connection: close"));
    expect(statuses(loose.text)).toEqual([200]);
    expect(upstreamCalls).toBe(before + 1);
  },
);

test.each(["Bearer  user-token", "Bearer\tuser-token", "Bearer user-token,Bearer user-token", "Bearer"])(
  "%j is no bearer token",
  async (authorization) => {
    const { text } = await exchange(
      port,
      head("GET /auth/me HTTP/1.1", `Authorization: ${authorization}`, "Connection: close"),
    );
    expect(statuses(text)).toEqual([401]);
  },
);
