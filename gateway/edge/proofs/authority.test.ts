import { expect, test } from "vitest";
import { isAllowedHost, normalAuthority, normalizeRequest, normalOrigin, originForm } from "./authority.ts";

test.each([
  ["Example.COM", "http", "example.com"],
  ["example.com:80", "http", "example.com"],
  ["example.com:0443", "https", "example.com"],
  ["example.com:", "https", "example.com"],
  ["example.com.", "https", "example.com"],
  ["example.com.:443", "https", "example.com"],
  ["example.com:80", "https", "example.com:80"],
  ["example.com:443", "http", "example.com:443"],
  ["example.com:8080", "http", "example.com:8080"],
  ["example.com:443", "", "example.com:443"],
  ["127.0.0.1:80", "http", "127.0.0.1"],
  ["[::1]:443", "https", "[::1]"],
  ["[0:0:0:0:0:0:0:1]:8443", "https", "[::1]:8443"],
  ["[2001:DB8::A]", "https", "[2001:db8::a]"],
])("the authority %s is, with %s, %s", (written, scheme, expected) => {
  expect(normalAuthority(written, scheme)).toBe(expected);
});

test.each([
  "",
  "x@example.com",
  "example.com..",
  "example.com:443:443",
  "example.com:x",
  "example.com,example.com",
  "example.com/",
  "[::1].",
  "[::1]x:443",
  "x[::1]:443",
  "[:::1]",
  "example.com :443",
])("%j is no other writing of an allowed host", (written) => {
  const hosts = new Set(["example.com", "[::1]"]);
  expect(isAllowedHost(hosts, normalAuthority(written, "https"), "https")).toBe(false);
});

test("a host that is listed with the default port of its scheme is allowed without it", () => {
  const hosts = new Set(["example.com:443", "[::1]:80"]);
  expect(isAllowedHost(hosts, "example.com", "https")).toBe(true);
  expect(isAllowedHost(hosts, "example.com", "http")).toBe(false);
  expect(isAllowedHost(hosts, "[::1]", "http")).toBe(true);
  expect(isAllowedHost(hosts, "[::1]", "ftp")).toBe(false);
});

test.each([
  ["https://app.example.com", "https://app.example.com"],
  ["HTTPS://App.example.com.:443", "https://app.example.com"],
  ["http://app.example.com:443", "http://app.example.com:443"],
  ["http://app.example.com/", "http://app.example.com/"],
  ["app://x.:80", "app://x.:80"],
  ["null", "null"],
  ["*", "*"],
])("the origin %s is %s", (written, expected) => {
  expect(normalOrigin(written)).toBe(expected);
});

test.each([
  ["/a?b", "/a?b"],
  ["/http://a/b", "/http://a/b"],
  ["http://a/b?c", "/b?c"],
  ["HTTPS://A:1/b", "/b"],
  ["http://a", "/"],
  ["http://a?b", "/?b"],
  ["http://a//b", "//b"],
  ["http://x@a/b", "http://x@a/b"],
  ["http://a\\b", "http://a\\b"],
  ["http://a#b", "http://a#b"],
  ["http:///b", "http:///b"],
  ["ftp://a/b", "ftp://a/b"],
  ["xhttp://a/b", "xhttp://a/b"],
  ["*", "*"],
  ["a:443", "a:443"],
  ["", ""],
])("the target %s is %s in origin form", (target, expected) => {
  expect(originForm(target)).toBe(expected);
});

test.each([
  ["HTTPS", "https"],
  ["http, Https", "http, https"],
  ["wss", "https"],
  ["WS", "http"],
  ["wsx", "wsx"],
])("X-Forwarded-Proto %s is %s", (written, expected) => {
  const request = { url: "/", headers: { "x-forwarded-proto": written } };
  expect(normalizeRequest(request as never)).toBe("/");
  expect(request.headers["x-forwarded-proto"]).toBe(expected);
});
