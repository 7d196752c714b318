import { expect, test } from "vitest";
import { STANDARD_HEADERS } from "./standard-headers.ts";
import { addDownstreamHeaders, passableTrailers, upstreamHeaders } from "./upstream-headers.ts";

const caller = {
  principal: { userId: "user-1", role: "USER", sessionId: "session-1" } as const,
  accessToken: "verified.token.text",
  call: { requestId: "request-1", traceparent: "00-trace-span-01" },
};

function forwarded(...pairs: [string, string][]): [string, string][] {
  const flat = upstreamHeaders(pairs.flat(), caller);
  return flat.flatMap((name, index): [string, string][] =>
    index % 2 === 0 ? [[name, flat[index + 1] ?? ""]] : [],
  );
}

const OURS: [string, string][] = [
  ["authorization", "Bearer verified.token.text"],
  ["x-user-id", "user-1"],
  ["x-user-role", "USER"],
  ["x-session-id", "session-1"],
  ["x-request-id", "request-1"],
  ["traceparent", "00-trace-span-01"],
];

test("the verified identity is set, and ordinary headers pass as they came, repeated ones too", () => {
  const ordinary: [string, string][] = [
    ["content-type", "application/json"],
    ["content-length", "12"],
    ["idempotency-key", "k1"],
    ["accept", "a"],
    ["accept", "b"],
    ["cookie", "c=1"],
  ];
  expect(forwarded(...ordinary)).toEqual([...ordinary, ...OURS]);
});

test.each([
  "X-User-Id",
  "x-user-role",
  "X-USER-ROLES",
  "X-User",
  "X-Session-Id",
  "X-Session",
  "X_User_Id",
  "x-user_id",
  "X-Actor-User-Id",
  "X-Forwarded-For",
  "X-Forwarded-Host",
  "X-Forwarded",
  "Forwarded",
  "X-Real-IP",
  "X-Original-URL",
  "X-Rewrite-URL",
  "X-HTTP-Method-Override",
  "X-Request-Id",
  "Authorization",
  "Host",
  "traceparent",
  "tracestate",
  "baggage",
  "Connection",
  "Keep-Alive",
  "Proxy-Authorization",
  "Proxy-Connection",
  "TE",
  "Trailer",
  "Transfer-Encoding",
  "Upgrade",
  "HTTP2-Settings",
  "Expect",
])("the client's %s does not reach the upstream", (name) => {
  expect(forwarded([name, "forged"], [name, "again"])).toEqual(OURS);
});

test("a Connection header can drop what the client sent, never what we set", () => {
  const sent: [string, string][] = [
    ["Connection", "close, X-User-Id, authorization,x-secret"],
    ["Connection", "X-Request-Id , traceparent"],
    ["X-Secret", "1"],
    ["X-Kept", "1"],
  ];
  expect(forwarded(...sent)).toEqual([["x-kept", "1"], ...OURS]);
});

test("on a public route nobody is named", () => {
  const call = { requestId: "id", traceparent: "tp" };
  const headers = upstreamHeaders(["Authorization", "Basic x", "X-User-Id", "7"], {
    principal: null,
    accessToken: "",
    call,
  });
  expect(headers).toEqual(["x-request-id", "id", "traceparent", "tp"]);
});

const STANDARD = Object.entries(STANDARD_HEADERS).flat();

test("an answer loses its connection's headers and what it tells of the upstream", () => {
  const headers: string[] = [];
  const sent = {
    Connection: "keep-alive, X-Internal",
    "X-Internal": "1",
    "Keep-Alive": "timeout=5",
    "Transfer-Encoding": "chunked",
    Server: "nginx/1.0",
    "X-Powered-By": "Express",
    "X-Request-Id": "theirs",
    "Access-Control-Allow-Origin": "*",
    "Content-Type": "text/plain",
  };
  const raw = [...Object.entries(sent).flat(), "Set-Cookie", "a=1", "Set-Cookie", "b=\xe4"];
  addDownstreamHeaders(
    headers,
    raw.map((text) => Buffer.from(text, "latin1")),
  );
  const kept = ["content-type", "text/plain", "set-cookie", "a=1", "set-cookie", "b=\xe4"];
  expect(headers).toEqual([...kept, ...STANDARD]);
});

test("an upstream's own policy for browsers stays as it is", () => {
  const headers: string[] = [];
  addDownstreamHeaders(headers, ["Content-Security-Policy", "default-src 'self'"]);
  expect(headers.filter((text) => text === "content-security-policy")).toHaveLength(1);
  expect(headers).toContain("default-src 'self'");
});

test("trailers that say how to read the body, or belong to the connection, do not pass", () => {
  const trailers = {
    "x-checksum": "1",
    "content-length": "5",
    "transfer-encoding": "x",
    "set-cookie": ["a"],
  };
  expect(passableTrailers(trailers)).toEqual({ "x-checksum": "1" });
});
