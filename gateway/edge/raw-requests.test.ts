import { once } from "node:events";
import { type AddressInfo, connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { exchange, statuses } from "../testing/raw-socket.ts";
import { account, ada, completedLogin, HOST, testGateway } from "../testing/test-gateway.ts";

let isDraining = false;
const gateway = testGateway({
  isDraining: () => isDraining,
  identity: {
    getUser: async () => account,
    login: async () => completedLogin(),
  },
});
let port = 0;

beforeAll(async () => {
  await gateway.app.listen({ port: 0, host: "127.0.0.1" });
  port = (gateway.app.server.address() as AddressInfo).port;
});
afterAll(() => gateway.app.close());

const json = JSON.stringify({ email: ada.email, password: "x" });
/** A request that would leave a trace if it were served. */
const marker = `POST /auth/login HTTP/1.1\r\nHost: ${HOST}\r\nContent-Type: application/json\r\nContent-Length: ${json.length}\r\n\r\n${json}`;

function post(headers: string[], body = "", version = "1.1"): string {
  const lines = [
    `POST /auth/login HTTP/${version}`,
    `Host: ${HOST}`,
    "Content-Type: application/json",
    ...headers,
  ];
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

test("a well-formed request is served, and the next on its connection too", async () => {
  const { text } = await exchange(port, marker + marker);
  expect(statuses(text)).toEqual([200, 200]);
});

test("while the process drains, an answer ends its connection, so that no client reuses one that is about to close", async () => {
  isDraining = true;
  try {
    const { text, closed } = await exchange(port, marker);
    expect([statuses(text), /^connection: close\r$/im.test(text), closed]).toEqual([[200], true, true]);
  } finally {
    isDraining = false;
  }
});

/** RFC 9110 §5.6.7. */
function datesIn(text: string): string[] {
  return text.match(/^date: \w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT\r$/gim) ?? [];
}

test.each(["FOO / HTTP/1.1", "DESCRIBE / RTSP/1.0", "CONNECT a:1 HTTP/1.1"])(
  "the refusal of %s has one Date (RFC 9110 §6.6.1)",
  async (line) => {
    const { text } = await exchange(port, `${line}\r\nHost: ${HOST}\r\n\r\n`);
    expect(text).toMatch(/^HTTP\/1\.1 [45]/);
    expect(datesIn(text)).toHaveLength(1);
  },
);

const length = `Content-Length: ${json.length}`;
const chunked = `${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`;

test.each<{ what: string; bytes: string }>([
  {
    what: "both Content-Length and Transfer-Encoding",
    bytes: post([length, "Transfer-Encoding: chunked"], chunked),
  },
  { what: "two different Content-Lengths", bytes: post([length, "Content-Length: 1"], json) },
  { what: "two equal Content-Lengths", bytes: post([length, length], json) },
  { what: "a list of Content-Lengths", bytes: post([`${length}, ${json.length}`], json) },
  { what: "a Content-Length with a plus", bytes: post([`Content-Length: +${json.length}`], json) },
  { what: "a negative Content-Length", bytes: post(["Content-Length: -1"], json) },
  { what: "a hexadecimal Content-Length", bytes: post(["Content-Length: 0x10"], json) },
  { what: "two transfer codings", bytes: post(["Transfer-Encoding: chunked, identity"], chunked) },
  {
    what: "two Transfer-Encoding headers",
    bytes: post(["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"], chunked),
  },
  { what: "Transfer-Encoding in HTTP/1.0", bytes: post(["Transfer-Encoding: chunked"], chunked, "1.0") },
  { what: "a folded header", bytes: post([length, "X-A: b\r\n c"], json) },
  { what: "a space before the colon", bytes: post([`Content-Length : ${json.length}`], json) },
  { what: "a NUL in a header", bytes: post([length, "X-A: b\0c"], json) },
  { what: "a bare CR in a header", bytes: post([length, "X-A: b\rX-C: d"], json) },
  { what: "a bare LF between headers", bytes: post([`${length}\nX-A: b`], json) },
  {
    what: "a chunk size beyond all bounds",
    bytes: post(["Transfer-Encoding: chunked"], `fffffffffffffffff\r\n${json}`),
  },
  {
    what: "a chunk that is longer than it says",
    bytes: post(["Transfer-Encoding: chunked"], `1\r\n${json}\r\n0\r\n\r\n`),
  },
  {
    what: "a chunk extension with a bare LF",
    bytes: post(["Transfer-Encoding: chunked"], `1;a\nb\r\n{\r\n0\r\n\r\n`),
  },
  { what: "two Hosts", bytes: post([`Host: ${HOST}`, length], json) },
  { what: "no Host", bytes: "GET /auth/me HTTP/1.1\r\n\r\n" },
  {
    what: "two Authorizations",
    bytes: post(["Authorization: Bearer a", "authorization: Bearer b", length], json),
  },
  { what: "a target with a user", bytes: `GET http://a@${HOST}/auth/me HTTP/1.1\r\nHost: ${HOST}\r\n\r\n` },
  { what: "a target of no host", bytes: `GET http:///auth/me HTTP/1.1\r\nHost: ${HOST}\r\n\r\n` },
  { what: "an absolute target without Host", bytes: `GET http://${HOST}/auth/me HTTP/1.1\r\n\r\n` },
  { what: "a body on GET", bytes: `GET /auth/me HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: 1\r\n\r\nx` },
  { what: "an encoded slash", bytes: `GET /auth%2fme HTTP/1.1\r\nHost: ${HOST}\r\n\r\n` },
  { what: "a NUL in the path", bytes: `GET /auth/me\0 HTTP/1.1\r\nHost: ${HOST}\r\n\r\n` },
  { what: "another protocol", bytes: `GET /auth/me HTTP/3.7\r\nHost: ${HOST}\r\n\r\n` },
  {
    what: "a Transfer-Encoding with a tab and another coding",
    bytes: post(["Transfer-Encoding:\tchunked, gzip"], chunked),
  },
  {
    what: "a Transfer-Encoding hidden by a vertical tab",
    bytes: post(["Transfer-Encoding: \x0bchunked"], chunked),
  },
  { what: "an empty Transfer-Encoding beside a length", bytes: post([length, "Transfer-Encoding: "], json) },
  {
    what: "a chunk size with a space inside",
    bytes: post(["Transfer-Encoding: chunked"], `1 0\r\n${json}\r\n0\r\n\r\n`),
  },
  {
    what: "a chunk size with 0x",
    bytes: post(["Transfer-Encoding: chunked"], `0x10\r\n${json}\r\n0\r\n\r\n`),
  },
  {
    what: "a negative chunk size",
    bytes: post(["Transfer-Encoding: chunked"], `-1\r\n${json}\r\n0\r\n\r\n`),
  },
  {
    what: "a chunk that ends with a bare LF",
    bytes: post(["Transfer-Encoding: chunked"], `1\r\n{\n0\r\n\r\n`),
  },
  { what: "a Content-Length with a space inside", bytes: post(["Content-Length: 1 0"], json) },
  { what: "an empty Content-Length", bytes: post(["Content-Length:"], json) },
  { what: "a header without a name", bytes: post([length, ": x"], json) },
  { what: "a header line without a colon", bytes: post([length, "X-A"], json) },
  { what: "a target with a fragment", bytes: `GET /auth/me#x HTTP/1.1\r\nHost: ${HOST}\r\n\r\n` },
  { what: "no HTTP at all", bytes: "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n" },
])("$what: 400, the connection ends, and what follows is not served", async ({ bytes }) => {
  const before = gateway.entries.length;
  const { text, closed } = await exchange(port, bytes + marker);
  expect(statuses(text)).toEqual([400]);
  expect(closed).toBe(true);
  expect(gateway.entries.length).toBe(before);
  expect(text).toMatch(/^x-request-id: [0-9a-f-]{36}\r$/im);
  expect(datesIn(text)).toHaveLength(1);
  expect(text).toContain('"code":"bad_request"');
});

test("headers without end are 431 in the documented shape", async () => {
  const { text, closed } = await exchange(
    port,
    `GET / HTTP/1.1\r\nHost: ${HOST}\r\nX-A: ${"a".repeat(20_000)}`,
  );
  expect(statuses(text)).toEqual([431]);
  expect(datesIn(text)).toHaveLength(1);
  expect(text).toContain('"code":"headers_too_large"');
  expect(closed).toBe(true);
});

test("more than 100 headers are 431", async () => {
  const many = Array.from({ length: 101 }, (_, index) => `X-${index}: 1\r\n`).join("");
  const { text } = await exchange(port, `GET /auth/me HTTP/1.1\r\nHost: ${HOST}\r\n${many}\r\n${marker}`);
  expect(statuses(text)).toEqual([431]);
});

test("a URL beyond 8 KiB is 414", async () => {
  const { text } = await exchange(port, `GET /${"a".repeat(9_000)} HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
  expect(statuses(text)).toEqual([414]);
});

test("a request line that stops half-way is 408 after a few seconds", async () => {
  const { text, closed } = await exchange(port, "GET /auth/me HT", 20_000);
  expect(statuses(text)).toEqual([408]);
  expect(text).toContain('"code":"request_timeout"');
  expect(closed).toBe(true);
});

/**
 * What Node does after a stall of this process: it misses a request that the kernel already has.
 * @param early sent before, as bytes that Node has read.
 */
async function missedAfterStall(bytes: string, early = ""): Promise<string> {
  const { server } = gateway.app;
  const { headersTimeout } = server;
  server.headersTimeout = 0;
  onTestFinished(() => {
    server.headersTimeout = headersTimeout;
  });
  const accepted = once(server, "connection") as Promise<[Socket]>;
  const client = connect({ port, host: "127.0.0.1" });
  let text = "";
  client.on("data", (chunk) => (text += chunk.toString()));
  const [[socket]] = await Promise.all([accepted, once(client, "connect")]);
  if (early !== "") {
    client.write(early);
    await expect.poll(() => socket.bytesRead).toBe(early.length);
  }
  const closed = once(client, "close");
  // In the phase of timers, as Node's own.
  setTimeout(() => {
    if (bytes !== "") client.write(bytes);
    server.emit(
      "clientError",
      Object.assign(new Error("late"), { code: "ERR_HTTP_REQUEST_TIMEOUT" }),
      socket,
    );
  }, 0);
  await closed;
  return text;
}

test.each([
  ["a whole request", marker, ""],
  ["the end of its head", marker.slice(20), marker.slice(0, 20)],
])("%s that came while this process stood still is served, not 408", async (_what, bytes, early) => {
  const closing = (text: string) => text.replace("Content-Type", "Connection: close\r\nContent-Type");
  expect(statuses(await missedAfterStall(closing(bytes), early))).toEqual([200]);
});

test.each([
  ["a part of a head", "GET /auth/me HTTP/1.1\r\n", ""],
  ["more of a head that stays unfinished", "Host: ", "GET /auth/me HTTP/1.1\r\n"],
])("after a stall, %s is 408", async (_what, bytes, early) => {
  expect(statuses(await missedAfterStall(bytes, early))).toEqual([408]);
});

test("a connection on which nothing was asked is closed without an answer", async () => {
  expect(await missedAfterStall("")).toBe("");
});

test("100-continue is answered; another expectation is refused in the documented shape", async () => {
  const good = await exchange(port, post([length, "Expect: 100-continue"], json));
  expect(statuses(good.text)).toEqual([100, 200]);
  const bad = await exchange(port, post([length, "Expect: more"], json));
  expect(statuses(bad.text)).toEqual([400]);
  expect(bad.text).toContain('"code":"bad_request"');
});

test("an upgrade is not taken: the request is answered as HTTP/1.1", async () => {
  const upgrade = `GET /auth/me HTTP/1.1\r\nHost: ${HOST}\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n`;
  const { text } = await exchange(port, upgrade);
  expect(statuses(text)).toEqual([401]);
});

test("a body that is shorter than announced never reaches a handler", async () => {
  const before = gateway.entries.length;
  await exchange(port, post([`Content-Length: ${json.length + 10}`], json), 100);
  expect(gateway.entries.length).toBe(before);
});

test("no CR or LF of a client gets into a header", async () => {
  const { text } = await exchange(port, `GET /x%0d%0aSet-Cookie:a=b HTTP/1.1\r\nHost: ${HOST}\r\n\r\n`);
  expect(text).not.toMatch(/^set-cookie/im);
});

test("a large body after a refusal is not read to its end: the connection closes", async () => {
  const head = `POST /auth/change-email HTTP/1.1\r\nHost: ${HOST}\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n`;
  const { text, closed } = await exchange(port, head);
  expect(statuses(text)).toEqual([401]);
  expect(closed).toBe(true);
});
