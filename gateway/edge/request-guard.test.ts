import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { guardRequest, guardUpstreamPath } from "./request-guard.ts";

const HOSTS = new Set(["api.example.com", "localhost:8080"]);

interface Sent {
  method?: string;
  url?: string;
  httpVersion?: string;
  headers?: [string, string][];
  /** Before it was brought to origin form. */
  target?: string;
  scheme?: string;
}

function verdict({
  method = "GET",
  url = "/",
  httpVersion = "1.1",
  headers,
  target,
  scheme = "http",
}: Sent): string {
  const pairs: [string, string][] = headers ?? [["Host", "api.example.com"]];
  try {
    guardRequest(
      {
        method,
        url,
        httpVersion,
        rawHeaders: pairs.flat(),
        headers: Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value])),
      },
      { target: target ?? url, scheme },
      HOSTS,
    );
    return "passes";
  } catch (error) {
    if (error instanceof DomainError) return error.code;
    throw error;
  }
}

test.each([
  "/",
  "/auth/me",
  "/auth/me?next=%2Fhome&x=..//",
  "/payments/a.b-c_d~e;f=1",
  "/payments/%20%41%C3%A9",
  "/%61uth/me",
])("%s means one thing only", (url) => {
  expect(verdict({ url })).toBe("passes");
});

test.each([
  "/a%2fb",
  "/a%2Fb",
  "/a%5cb",
  "/%2e%2e/b",
  "/a/%2E",
  "/a%00",
  "/a%0d%0aX:y",
  "/a%7f",
  "/../b",
  "/a/..",
  "/a/./b",
  "/a/.",
  "/a..b",
  "//a",
  "/a//b",
  "/a\\b",
  "/a%zz",
  "/a%4z",
  "/a%",
  "/a#b",
  "/a\u00e9",
  "/a b",
  "/a\x7f",
  "/a?b#c",
  "/a?b c",
  "http://x@api.example.com/",
  "ftp://api.example.com/",
  "api.example.com:443",
  "*",
  "",
])("the target %j could be read in two ways", (url) => {
  expect(verdict({ url })).toBe("bad_request");
});

test("a URL may have 8192 characters", () => {
  expect(verdict({ url: `/${"a".repeat(8_191)}` })).toBe("passes");
  expect(verdict({ url: `/${"a".repeat(8_192)}` })).toBe("uri_too_long");
});

const host: [string, string] = ["Host", "api.example.com"];

test.each<{ what: string; headers: [string, string][]; expected: string }>([
  { what: "no Host", headers: [], expected: "bad_request" },
  { what: "two Hosts", headers: [host, host], expected: "bad_request" },
  { what: "another Host", headers: [["Host", "evil.example"]], expected: "misdirected_request" },
  {
    what: "a Host with another port",
    headers: [["Host", "localhost:8081"]],
    expected: "misdirected_request",
  },
  { what: "a Host with a user", headers: [["Host", "x@api.example.com"]], expected: "misdirected_request" },
  { what: "a Host in capitals", headers: [["HOST", "API.Example.Com"]], expected: "passes" },
])("$what: $expected", ({ headers, expected }) => {
  expect(verdict({ headers })).toBe(expected);
});

test.each([
  "Connection",
  "close",
  "keep-alive",
  "Upgrade, HTTP2-Settings",
  "TE, close",
  "Keep-Alive, Upgrade",
  "trailer,transfer-encoding , Proxy-Connection",
  "proxy-authenticate, proxy-authorization",
  "",
  ", close,,",
])("a Connection of %j names only what ends at this hop, and passes", (value) => {
  expect(verdict({ headers: [host, ["connection", value]] })).toBe("passes");
});

test.each([
  "Idempotency-Key",
  "close, idempotency-key",
  "keep-alive,\tIDEMPOTENCY-KEY",
  "Content-Type",
  "Content-Length",
  "Authorization",
  "Cookie",
  "Origin",
  "Host",
  "DPoP",
  "Gatehouse-Approval",
  "X-Approval-Id",
  "X-User-Id",
  "X-Request-Id",
  "If-Match",
  "X-Anything",
  "close;idempotency-key",
])("a Connection of %j would keep a field from the next hop, and is refused", (value) => {
  expect(verdict({ headers: [host, ["CONNECTION", value]] })).toBe("bad_request");
  expect(verdict({ headers: [host, ["Connection", "close"], ["Connection", value]] })).toBe("bad_request");
});

test.each([
  "Authorization",
  "Content-Type",
  "Content-Length",
  "Origin",
  "Transfer-Encoding",
  "Content-Encoding",
  "Idempotency-Key",
  "Gatehouse-Approval",
  "Gatehouse-Client",
])("two %s headers are refused, equal or not", (name) => {
  const value = name === "Transfer-Encoding" ? "chunked" : "0";
  const once: [string, string] = [name, value];
  const again: [string, string] = [name.toUpperCase(), value];
  expect(verdict({ method: "POST", headers: [host, once] })).toBe("passes");
  expect(verdict({ method: "POST", headers: [host, once, again] })).toBe("bad_request");
});

test.each([
  ["http://api.example.com/", "http", "passes"],
  ["HTTP://API.example.com:80?x", "http", "passes"],
  ["https://api.example.com.:443/", "https", "passes"],
  ["https://api.example.com/", "http", "misdirected_request"],
  ["http://api.example.com/", "https", "misdirected_request"],
  ["http://evil.example/", "http", "misdirected_request"],
  ["http://api.example.com:443/", "https", "misdirected_request"],
])("the target %s over %s: %s, whatever Host says", (target, scheme, expected) => {
  for (const value of ["api.example.com", "evil.example"]) {
    expect(verdict({ target, scheme, headers: [["Host", value]] })).toBe(expected);
  }
  expect(verdict({ target, scheme, headers: [] })).toBe("bad_request");
  expect(verdict({ target, scheme, headers: [host, host] })).toBe("bad_request");
});

test("several Cookie lines are one", () => {
  expect(verdict({ headers: [host, ["Cookie", "a=1"], ["cookie", "b=2"]] })).toBe("passes");
});

test("a hundred headers pass, one more does not", () => {
  const others = Array.from({ length: 99 }, (_, index): [string, string] => [`X-${index}`, "1"]);
  expect(verdict({ headers: [host, ...others] })).toBe("passes");
  expect(verdict({ headers: [host, ...others, ["X-last", "1"]] })).toBe("headers_too_large");
});

test("a header's name may have 256 characters", () => {
  expect(verdict({ headers: [host, ["x".repeat(256), "1"]] })).toBe("passes");
  expect(verdict({ headers: [host, ["x".repeat(257), "1"]] })).toBe("headers_too_large");
});

test("a header that may repeat is counted with no other", () => {
  expect(verdict({ headers: [host, ["Accept", "a"], ["Accept", "b"], ["X-Other", "1"]] })).toBe("passes");
});

test("a Host is missed among other headers", () => {
  expect(verdict({ headers: [["Cookie", "a=1"]] })).toBe("bad_request");
});

test.each([
  ["0.9", "http_version_not_supported"],
  ["1.0", "passes"],
  ["1.1", "passes"],
  ["1.2", "http_version_not_supported"],
  ["2.0", "http_version_not_supported"],
])("HTTP/%s: %s", (httpVersion, expected) => {
  expect(verdict({ httpVersion })).toBe(expected);
});

test.each([
  ["chunked", "passes"],
  ["Chunked", "passes"],
  ["gzip, chunked", "not_implemented"],
  ["chunked, chunked", "not_implemented"],
  ["identity", "not_implemented"],
  ["", "not_implemented"],
])("Transfer-Encoding %j: %s", (coding, expected) => {
  expect(verdict({ method: "POST", headers: [host, ["Transfer-Encoding", coding]] })).toBe(expected);
});

test("HTTP/1.0 has no Transfer-Encoding", () => {
  const headers: [string, string][] = [host, ["Transfer-Encoding", "chunked"]];
  expect(verdict({ method: "POST", httpVersion: "1.0", headers })).toBe("bad_request");
  expect(verdict({ method: "POST", headers })).toBe("passes");
});

test("GET, HEAD and TRACE carry no body", () => {
  for (const method of ["GET", "HEAD", "TRACE"]) {
    expect(verdict({ method, headers: [host, ["Content-Length", "5"]] })).toBe("bad_request");
    expect(verdict({ method, headers: [host, ["Transfer-Encoding", "chunked"]] })).toBe("bad_request");
    expect(verdict({ method, headers: [host, ["Content-Length", "0"]] })).toBe("passes");
  }
});

test("nothing but 100-continue can be expected", () => {
  expect(verdict({ method: "POST", headers: [host, ["Expect", "100-Continue"]] })).toBe("passes");
  expect(verdict({ method: "POST", headers: [host, ["Expect", "200-ok"]] })).toBe("bad_request");
});

test.each([
  ["an escaped escape of dots", "/a/%252e%252e/b"],
  ["an escaped escape of a slash", "/a/..%252fb".replace("..", "x")],
  ["one escaped three times", "/a/%25252e"],
  ["any other escaped escape", "/a/%2541"],
  ["an overlong dot", "/a/%c0%ae%c0%ae/b"],
  ["an overlong slash", "/a/%c0%afb"],
  ["an overlong slash of three bytes", "/a/%e0%80%af"],
  ["a byte that is no UTF-8", "/a/%ff"],
  ["a surrogate", "/a/%ed%a0%80"],
  ["full-width dots", "/a/%ef%bc%8e%ef%bc%8e/b"],
  ["a full-width slash", "/a%ef%bc%8fb"],
  ["a full-width backslash", "/a%ef%bc%bcb"],
  ["a full-width percent sign", "/a/%ef%bc%852e"],
  ["a small full stop", "/a/%ef%b9%92"],
  ["a two dot leader", "/a/%e2%80%a5/b"],
  ["a division slash", "/a%e2%88%95b"],
  ["a fraction slash", "/a%e2%81%84b"],
  ["an ideographic full stop", "/a/%e3%80%82"],
  ["a path parameter", "/a;x=1"],
  ["an encoded path parameter", "/a%3bx=1"],
])("to an upstream, %s is ambiguous", (_what, path) => {
  expect(() => guardUpstreamPath(path)).toThrow(expect.objectContaining({ code: "bad_request" }));
});

test.each([
  "/a/7",
  "/a/50%25",
  "/a/50%25off",

  "/a/50%25b",
  "/a/M%C3%BCller",
  "/a/%E6%97%A5%E6%9C%AC",
  "/a/x%20y",
  "/a/v1.2%2B3",
  "/a/%C2%BD",
])("to an upstream, %s means one thing", (path) => {
  expect(() => guardUpstreamPath(path)).not.toThrow();
});
