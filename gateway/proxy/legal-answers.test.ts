import { once } from "node:events";
import { ServerResponse } from "node:http";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from "vitest";
import type { AuditOutcome } from "#audit-client/stream/audit-entry.ts";
import { Upstream } from "../routing/upstream.ts";
import { exchange, statuses } from "../testing/raw-socket.ts";
import { HOST, routesOf, testGateway } from "../testing/test-gateway.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
/** More than the failures that open a circuit. */
const CALLS = 8;

/** The bytes of each answer. */
let answer = OK;
let isEndedAfter = false;
let calls = 0;
const upstream = createServer((socket: Socket) => {
  socket.on("error", () => undefined);
  socket.on("data", () => {
    calls += 1;
    socket.write(Buffer.from(answer, "latin1"));
    if (isEndedAfter) socket.end();
  });
});
let gateway: ReturnType<typeof testGateway>;
let port = 0;

beforeAll(async () => {
  upstream.listen(0, "127.0.0.1");
  await once(upstream, "listening");
  const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  const methods = { GET: { roles: ["USER"] }, POST: { roles: ["USER"], action: "a.make" } };
  const route = { timeoutMs: 5_000, methods };
  gateway = testGateway({
    routes: routesOf([
      { ...route, prefix: "/a", upstream: origin },
      { ...route, prefix: "/chat", upstream: origin, websocket: true },
      { ...route, prefix: "/two", upstreams: [origin, origin.replace("127.0.0.1", "localhost")] },
    ]),
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});

beforeEach(() => {
  answer = OK;
  isEndedAfter = false;
  calls = 0;
  gateway.entries.length = 0;
});

afterEach(() => void vi.restoreAllMocks());

afterAll(async () => {
  await gateway.app.close();
  upstream.close();
});

/** The next answer of this gateway: other servers of the process go on. */
function failOnce(method: "writeHead" | "write" | "addTrailers"): void {
  const real = ServerResponse.prototype[method] as (...args: unknown[]) => unknown;
  let isDone = false;
  vi.spyOn(ServerResponse.prototype, method).mockImplementation(function (
    this: ServerResponse,
    ...args: unknown[]
  ) {
    if (isDone || this.req.socket.localPort !== port) return real.apply(this, args) as never;
    isDone = true;
    throw new TypeError("refused by Node");
  });
}

async function ask(method = "GET", path = "/a", version = "1.1", ...headers: string[]) {
  const lines = [
    `${method} ${path} HTTP/${version}`,
    `Host: ${HOST}`,
    "Authorization: Bearer user-token",
    ...(method === "POST" ? ["Content-Length: 0"] : []),
    ...(headers.some((line) => line.startsWith("Connection")) ? headers : ["Connection: close", ...headers]),
  ];
  return exchange(port, `${lines.join("\r\n")}\r\n\r\n`, 20_000);
}

const outcome = () => gateway.entries.find((entry) => entry.kind === "outcome") as AuditOutcome | undefined;

const LIST = "</a.css>; rel=preload; as=style, </b.js>; rel=preload; as=script";
test.each([
  { link: "</a.css>; rel=preload", passed: "</a.css>; rel=preload" },
  { link: LIST, passed: LIST },
  {
    link: "</a.css>; rel=preload\r\nLink: </b.js>;rel=preload",
    passed: "</a.css>; rel=preload, </b.js>;rel=preload",
  },
  { link: '</a>; title="two words", </b>; rel="preload"', passed: '</b>; rel="preload"' },
  { link: '</a>; title="two words"', passed: undefined },
  { link: "</\u00e9>; rel=preload", passed: undefined },
  { link: "nothing", passed: undefined },
  { link: "", passed: undefined },
])(
  "a 103 with the link $link passes as $passed, and its answer as it is, however often",
  async ({ link, passed }) => {
    answer = `HTTP/1.1 103 Early Hints\r\nLink: ${link}\r\n\r\n${OK}`;
    for (let count = 0; count < CALLS; count += 1) {
      const { text } = await ask(count % 2 === 0 ? "GET" : "POST");
      expect(statuses(text)).toEqual(passed === undefined ? [200] : [103, 200]);
      expect(/^link: (.*)\r$/im.exec(text)?.[1]).toBe(passed);
      expect(text.endsWith("\r\n\r\nok")).toBe(true);
    }
    expect(calls).toBe(CALLS);
  },
);

test.each([
  { what: "a 103 of its upstream", headers: [] as string[], path: "/a" },
  { what: "100 Continue", headers: ["Expect: 100-continue"], path: "/a" },
  { what: "a refusal of its expectation", headers: ["Expect: anything"], path: "/a" },
  { what: "a WebSocket", headers: ["Connection: Upgrade", "Upgrade: websocket"], path: "/chat" },
])("an HTTP/1.0 client gets its answer, and never $what", async ({ headers, path }) => {
  answer = `HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n${OK}`;
  expect(statuses((await ask("GET", path, "1.0", ...headers)).text)).toEqual([200]);
  if (path === "/a") expect(statuses((await ask("POST", path, "1.0", ...headers)).text)).toEqual([200]);
});

test("every byte that a header value may have passes as it came, and so does an answer with any reason phrase", async () => {
  const bytes = [
    9,
    ...Array.from({ length: 256 }, (_, byte) => byte).filter((byte) => byte > 31 && byte !== 127),
  ];
  const value = `a${bytes.map((byte) => String.fromCharCode(byte)).join("")}z`;
  for (const reason of ["", " ", " \u00e9t\u00e9", " 200 OK HTTP/1.1", " \tx"]) {
    answer = `HTTP/1.1 299${reason}\r\nX-Bytes: ${value}\r\nContent-Length: 2\r\n\r\nok`;
    const { text } = await ask();
    expect(statuses(text)).toEqual([299]);
    expect(text).toContain(`x-bytes: ${value}\r\n`);
  }
});

test("trailers pass with every byte that they may have, also behind an audit outcome", async () => {
  const value = "\u00e9 \u00e2\u0082\u00ac \u00ff";
  answer = `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: ${value}\r\nX-Sum: 2\r\n\r\n`;
  for (const method of ["GET", "POST"]) {
    const { text } = await ask(method);
    expect(text).toContain(`\r\n0\r\nx-sum: ${value}\r\nx-sum: 2\r\n\r\n`);
  }
  expect(outcome()?.outcome).toBe("success");
});

test.each([
  { method: "GET", status: 304 },
  { method: "POST", status: 204 },
])(
  "a $status to $method is whole although it names the length of a body, however often",
  async ({ method, status }) => {
    answer = `HTTP/1.1 ${status} X\r\nETag: "1"\r\nContent-Length: 10\r\n\r\n`;
    for (let count = 0; count < CALLS; count += 1) {
      const { text } = await ask(method);
      expect(statuses(text)).toEqual([status]);
      expect(text).toContain('etag: "1"\r\n');
      expect(text.endsWith("\r\n\r\n")).toBe(true);
    }
    expect(calls).toBe(CALLS);
    if (method === "POST") expect(outcome()).toMatchObject({ outcome: "success", httpStatus: status });
  },
);

test.each([
  "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nok",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n",
])("an answer that its upstream breaks off has the outcome unknown: %j", async (bytes) => {
  answer = bytes;
  isEndedAfter = true;
  const { text, closed } = await ask("POST");
  expect({ statuses: statuses(text), closed }).toEqual({ statuses: [200], closed: true });
  expect(text.endsWith("0\r\n\r\n")).toBe(false);
  await expect
    .poll(outcome)
    .toMatchObject({ outcome: "unknown", errorCode: "upstream_unavailable", httpStatus: 200 });
});

test.each([
  { method: "writeHead", expected: [502] },
  { method: "write", expected: [200] },
  { method: "addTrailers", expected: [200] },
] as const)(
  "a failure of $method is the gateway's: no circuit opens, and what was sent is unknown",
  async ({ method, expected }) => {
    answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\n\r\n";
    for (let count = 0; count < CALLS; count += 1) {
      failOnce(method);
      const { text } = await ask("POST");
      expect(statuses(text).slice(0, 1)).toEqual(expected[0] === 502 ? [502] : statuses(text).slice(0, 1));
      expect(text.endsWith("0\r\n\r\n")).toBe(false);
      vi.restoreAllMocks();
    }
    expect(calls).toBe(CALLS);
    if (method !== "addTrailers") await expect.poll(outcome).toMatchObject({ outcome: "unknown" });
    expect(statuses((await ask("GET")).text)).toEqual([200]);
  },
);

test.each([
  { what: "was begun on a connection", isBegun: true, tries: 1, result: "unknown" },
  { what: "has no connection", isBegun: false, tries: 2, result: "success" },
])(
  "a call that $what is sent $tries time(s), whatever the error says",
  async ({ isBegun, tries, result }) => {
    const dispatch = vi.spyOn(Upstream.prototype, "dispatch").mockImplementationOnce((_options, handler) => {
      const controller = { abort: () => undefined } as never;
      if (isBegun) handler.onRequestStart?.(controller, {});
      handler.onResponseError?.(
        controller,
        Object.assign(new Error("unreachable"), { code: "EHOSTUNREACH" }),
      );
    });
    const { text } = await ask("POST", "/two");
    expect(statuses(text)).toEqual([isBegun ? 502 : 200]);
    expect(dispatch).toHaveBeenCalledTimes(tries);
    await expect.poll(outcome).toMatchObject({ outcome: result });
  },
);

test("a WebSocket's answer has its header values byte for byte", async () => {
  answer = "HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Note: \u00e9\u00ff\r\n\r\n";
  const headers = [
    "Connection: Upgrade",
    "Upgrade: websocket",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
  ];
  const { text } = await ask("GET", "/chat", "1.1", ...headers, "Sec-WebSocket-Version: 13");
  expect(statuses(text)).toEqual([101]);
  expect(text).toContain("x-note: \u00e9\u00ff\r\n");
});
