import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { exchange, statuses } from "../testing/raw-socket.ts";
import { HOST, routesOf, testGateway } from "../testing/test-gateway.ts";

let served: IncomingMessage[] = [];
const upstream = createServer((request, response) => {
  served.push(request);
  response.writeEarlyHints({ link: "</a.css>; rel=preload" });
  response.writeHead(201, { location: `http://${request.headers.host}/made`, "set-cookie": "a=1; Path=/" });
  response.end();
});
upstream.on("upgrade", (request: IncomingMessage, socket: Socket) => {
  served.push(request);
  socket.end(
    "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSet-Cookie: a=1; Path=/\r\n\r\n",
  );
});
let gateway: ReturnType<typeof testGateway>;
let port = 0;
let trusted = (_address: string) => false;

beforeAll(async () => {
  await once(upstream.listen(0, "127.0.0.1"), "listening");
  const route = {
    upstream: `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`,
    methods: { GET: { auth: "public" } },
    websocket: true,
    allowRequestHeaders: ["x-api-version"],
  };
  gateway = testGateway({
    isTrustedProxy: (address) => trusted(address ?? ""),
    allowedHosts: new Set([HOST, `${HOST}:8443`]),
    routes: routesOf([
      { ...route, prefix: "/shop", stripPrefix: true },
      { ...route, prefix: "/plain" },
      { ...route, prefix: "/silent", stripPrefix: true, forwarded: false },
    ]),
  });
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});
beforeEach(() => {
  served = [];
  trusted = () => false;
});
afterAll(async () => {
  await gateway.app.close();
  upstream.close();
});

const FORWARDED = /^(?:x-.*|forwarded|via|client-ip|front-end-https|true-client-ip)$/i;

/** What the upstream gets that says from where the call came. */
async function learned(path: string, lines: readonly string[] = [], host = HOST, version = "1.1") {
  const head = [`GET ${path} HTTP/${version}`, `Host: ${host}`, ...lines, "Connection: close"];
  await exchange(port, `${head.join("\r\n")}\r\n\r\n`);
  const raw = served[0]?.rawHeaders ?? [];
  const pairs = raw.flatMap((name, index) =>
    index % 2 === 0 ? [[name, raw[index + 1] ?? ""] as const] : [],
  );
  const found = pairs.filter(([name]) => FORWARDED.test(name) && name !== "x-request-id");
  expect(new Set(found.map(([name]) => name)).size).toBe(found.length);
  return Object.fromEntries(found);
}

const DIRECT = {
  via: "1.1 gatehouse",
  "x-forwarded-for": "127.0.0.1",
  "x-forwarded-host": HOST,
  "x-forwarded-proto": "http",
  forwarded: `for=127.0.0.1;host=${HOST};proto=http`,
};

test("an upstream learns the client's address, the host, the scheme and what was cut off", async () => {
  expect(await learned("/shop/x", [], `${HOST}:80`)).toEqual({ ...DIRECT, "x-forwarded-prefix": "/shop" });
});

test.each([
  ["/v1/shop/x", { "x-forwarded-prefix": "/v1/shop" }],
  ["/plain/x", {}],
  ["/v1/plain/x", {}],
])("of %s it learns the prefix %j", async (path, prefix) => {
  expect(await learned(path)).toEqual({ ...DIRECT, ...prefix });
});

test("a port of the host is quoted in Forwarded", async () => {
  expect(await learned("/plain", [], `${HOST}:8443`)).toEqual({
    ...DIRECT,
    "x-forwarded-host": `${HOST}:8443`,
    forwarded: `for=127.0.0.1;host="${HOST}:8443";proto=http`,
  });
});

test("with forwarded: false an upstream learns nothing but Via", async () => {
  expect(await learned("/silent/x")).toEqual({ via: DIRECT.via });
});

test("Via names the version that was received, behind the names before it", async () => {
  const { via } = await learned("/plain", ["Via: 1.0 a", "Via: 1.1 b (c)"], HOST, "1.0");
  expect(via).toBe("1.0 a, 1.1 b (c), 1.0 gatehouse");
});

const FORGED = [
  ...["X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Prefix", "X-Forwarded-Port"],
  ...[
    "X-Forwarded-Server",
    "X-Forwarded-Scheme",
    "X-Forwarded-By",
    "X-Forwarded",
    "Forwarded",
    "Forwarded-For",
  ],
  ...["X-Real-IP", "X-Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "CF-Connecting-IP", "Client-IP"],
  ...["X-Original-URL", "X-Original-Host", "X-Original-Forwarded-For", "X-Rewrite-URL", "X-Host", "X-Scheme"],
  ...["Front-End-Https", "X-Forwarded-Ssl", "X-Url-Scheme", "X-Envoy-Original-Path", "X-Proxy-User-Ip"],
];

test.each(FORGED)("no client forges %s, in any spelling or order of lines", async (name) => {
  const spellings = [name, name.toUpperCase(), name.replaceAll("-", "_"), name.replace("-", "_")];
  const lines = spellings.map((spelling) => `${spelling}: evil.example`);
  expect(await learned("/plain", [...lines, `Connection: ${name}`].slice(0, -1))).toEqual(DIRECT);
  served = [];
  expect(await learned("/silent", lines)).toEqual({ via: DIRECT.via });
});

test("behind a trusted proxy the client comes first, then the proxies, and nothing that the client wrote", async () => {
  trusted = (address) => address === "127.0.0.1" || address === "10.0.0.9";
  const lines = [
    "X-Forwarded-For: 6.6.6.6, [2001:db8::1]:4711, 10.0.0.9",
    "X-Forwarded-Proto: HTTPS",
    "X-Forwarded-Host: evil.example",
    "Forwarded: for=6.6.6.6",
  ];
  expect(await learned("/plain", lines)).toEqual({
    ...DIRECT,
    "x-forwarded-for": "2001:db8::1, 10.0.0.9, 127.0.0.1",
    "x-forwarded-proto": "https",
    forwarded: `for="[2001:db8::1]";host=${HOST};proto=https, for=10.0.0.9, for=127.0.0.1`,
  });
});

test.each(["unknown", "", "_hidden, x", "6.6.6.6, unknown"])(
  "of X-Forwarded-For %j of a trusted proxy, its own address is left",
  async (value) => {
    trusted = (address) => address === "127.0.0.1";
    expect(await learned("/plain", [`X-Forwarded-For: ${value}`, "X-Forwarded-Proto: ftp"])).toEqual(DIRECT);
  },
);

test.each([
  "X-HTTP-Method-Override",
  "X-Method-Override",
  "X-HTTP-Method",
  "Via",
  "X-Forwarded-For",
  "X-Real-IP",
  "X-Original-URL",
  "X-Rewrite-URL",
  "Forwarded",
])("no route can allow %s of a client", (name) => {
  const route = { prefix: "/a", upstream: "http://a", methods: { GET: { auth: "public" } } };
  expect(() => routesOf([{ ...route, allowRequestHeaders: [name] }])).toThrow(/is set by the gateway/);
});

test("the answer's references are the public ones, those of early hints too", async () => {
  const { text } = await exchange(port, `GET /shop/x HTTP/1.1\r\nHost: ${HOST}\r\nConnection: close\r\n\r\n`);
  expect(statuses(text)).toEqual([103, 201]);
  expect(text).toMatch(/^link: <\/shop\/a\.css>; rel=preload\r$/im);
  expect(text).toMatch(/^location: \/shop\/made\r$/im);
  expect(text).toMatch(/^set-cookie: a=1; Path=\/shop\r$/im);
  expect(text).not.toMatch(/^via:/im);
});

test("a WebSocket's upstream learns the same, and its cookies are public ones", async () => {
  const socket = connect({ port, host: "127.0.0.1" });
  let text = "";
  socket.on("data", (chunk) => (text += chunk.toString()));
  socket.write(
    `GET http://${HOST}/shop/x HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Forwarded-For: 6.6.6.6\r\n\r\n`,
  );
  await expect.poll(() => statuses(text)).toEqual([101]);
  expect(text).toMatch(/^set-cookie: a=1; Path=\/shop\r$/im);
  expect(served[0]?.headers).toMatchObject({ ...DIRECT, "x-forwarded-prefix": "/shop" });
  socket.destroy();
});
