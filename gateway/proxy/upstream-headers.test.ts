import { expect, test } from "vitest";
import { upstreamHeaders } from "./upstream-headers.ts";

const AUTHORIZATION = "Bearer verified.token.text";
const caller = {
  access: {
    principal: {
      kind: "user",
      userId: "user-1",
      clientId: "",
      scopes: [],
      role: "USER",
      sessionId: "session-1",
      acr: 2,
      authTime: new Date(1_700_000_000_900),
    },
  } as const,
  call: { requestId: "request-1", traceparent: "00-trace-span-01" },
  approval: null,
};

function forwarded(...pairs: [string, string][]): [string, string][] {
  return forwardedWith([], ...pairs);
}

function forwardedWith(allowed: readonly string[], ...pairs: [string, string][]): [string, string][] {
  const flat = upstreamHeaders(pairs.flat(), caller, AUTHORIZATION, new Set(allowed));
  return flat.flatMap((name, index): [string, string][] =>
    index % 2 === 0 ? [[name, flat[index + 1] ?? ""]] : [],
  );
}

const OURS: [string, string][] = [
  ["authorization", "Bearer verified.token.text"],
  ["x-user-id", "user-1"],
  ["x-user-role", "USER"],
  ["x-session-id", "session-1"],
  ["x-auth-context", "urn:gatehouse:acr:2"],
  ["x-auth-time", "1700000000"],
  ["x-request-id", "request-1"],
  ["traceparent", "00-trace-span-01"],
];

test("a client is named with its scope, and as nobody's user", () => {
  const principal = {
    ...caller.access.principal,
    kind: "client",
    userId: "",
    clientId: "client-1",
    role: "",
    scopes: ["a:read", "a:write"],
  } as const;
  const spoofed = ["x-user-id", "x", "x-user-role", "ADMIN", "x-client-id", "y", "x-scope", "all"];
  const access = { ...caller.access, principal };
  expect(upstreamHeaders(spoofed, { ...caller, access }, AUTHORIZATION, new Set())).toEqual([
    ...[
      "authorization",
      "Bearer verified.token.text",
      "x-client-id",
      "client-1",
      "x-scope",
      "a:read a:write",
    ],
    ...["x-session-id", "session-1", "x-request-id", "request-1", "traceparent", "00-trace-span-01"],
  ]);
});

test("without a token the upstream gets no Authorization, and the identity as always", () => {
  const headers = upstreamHeaders(["Authorization", "Bearer x", "DPoP", "y"], caller, null, new Set());
  expect(headers).toEqual(OURS.slice(1).flat());
});

test.each<[string, string[], string | undefined]>([
  ["several", ["a=1", "b=2; c=3"], "a=1; b=2; c=3"],
  ["one of ours among several", ["a=1", "__Host-gatehouse-refresh=x", "gatehouse_device=y; b=2"], "a=1; b=2"],
  ["only ours", ["gatehouse_oauth=x", "gatehouse_device=y"], undefined],
  ["an empty one", ["", "a=1"], "a=1"],
])("of Cookie lines, %s become one without ours", (_what, lines, expected) => {
  const headers = forwarded(...lines.map((line): [string, string] => ["Cookie", line]));
  expect(headers.filter(([name]) => name === "cookie")).toEqual(
    expected === undefined ? [] : [["cookie", expected]],
  );
});

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
  "X-Auth-Context",
  "x-auth-time",
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
  "X-HTTP-Method",
  "X-Method-Override",
  "X-Client-IP",
  "True-Client-IP",
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

/** By these, proxies, single sign-on, clouds and frameworks say who calls, from where, and what for. */
const IDENTITY_NAMES = `
  Remote-User Remote-Email Remote-Groups Remote-Name REMOTE_USER X-Remote-User X-Remote-Group X-Remote-Extra-Scopes
  X-WEBAUTH-USER X-WEBAUTH-EMAIL X-WEBAUTH-ROLE X-Webauth-Groups X-Auth-Request-User X-Auth-Request-Email
  X-Auth-Request-Groups X-Auth-Request-Access-Token X-Auth-User X-Auth-Token X-Authenticated-User X-Authenticated-Userid
  X-Authenticated-Groups X-Amzn-Oidc-Identity X-Amzn-Oidc-Data X-Amzn-Oidc-Accesstoken X-Amzn-Mtls-Clientcert
  X-MS-CLIENT-PRINCIPAL X-MS-CLIENT-PRINCIPAL-ID X-MS-CLIENT-PRINCIPAL-NAME X-MS-TOKEN-AAD-ID-TOKEN
  X-Goog-Authenticated-User-Email X-Goog-Authenticated-User-Id X-Goog-Iap-Jwt-Assertion Cf-Access-Jwt-Assertion
  Cf-Access-Authenticated-User-Email X-authentik-username X-authentik-groups X-authentik-jwt X-Pomerium-Jwt-Assertion
  X-Pomerium-Claim-Email Tailscale-User-Login X-Consumer-Id X-Consumer-Username X-Credential-Identifier
  X-Anonymous-Consumer X-Userinfo X-UserId X-Username X-Email X-Role X-Roles X-Groups X-Permissions X-Scopes X-Tenant-Id
  X-Org-Id X-Account-Id X-Api-Key X-Client-Cert X-SSL-Client-Cert SSL-Client-S-DN X-Client-Verify Client-Cert
  X-Forwarded-Client-Cert X-Forwarded-User X-Forwarded-Email X-Forwarded-Groups X-Forwarded-Access-Token X-Impersonate-User
  Impersonate-User Impersonate-Group X-Hasura-Role X-Hasura-User-Id X-Is-Admin X-Admin X-Token X-Access-Token X-Jwt
  X-Id-Token CF-Connecting-IP CF-Connecting-IPv6 Client-IP Fastly-Client-IP X-Cluster-Client-IP X-Appengine-User-IP
  X-Azure-ClientIP X-Envoy-External-Address X-Envoy-Original-Path X-Envoy-Internal X-Envoy-Decorator-Operation
  X-Original-Host X-Original-Method X-Original-URI X-Host X-HTTP-Host-Override X-Rewrite-URI X-Accel-Redirect X-Sendfile
  Proxy X-ProxyUser-Ip X-Originating-IP X-Remote-IP X-Remote-Addr WL-Proxy-Client-IP Via From X-Correlation-Id X-B3-TraceId
`
  .trim()
  .split(/\s+/);

test.each(IDENTITY_NAMES)("a client's %s reaches an upstream only where the route names it", (name) => {
  expect(forwarded([name, "forged"], [name.toLowerCase(), "again"])).toEqual(OURS);
  const allowed = name.toLowerCase();
  expect(forwardedWith([allowed], [name, "wanted"])).toEqual([[allowed, "wanted"], ...OURS]);
  expect(forwardedWith(["x-other"], [name, "forged"])).toEqual(OURS);
});

/** What a client may say to any upstream, as the routes' documentation promises. */
const ORDINARY_NAMES = `
  Accept Accept-Charset Accept-Encoding Accept-Language Cache-Control Content-Digest Content-Disposition Content-Encoding
  Content-Language Content-Length Content-MD5 Content-Range Content-Type Cookie Date Digest DNT Idempotency-Key If-Match
  If-Modified-Since If-None-Match If-Range If-Unmodified-Since Last-Event-ID Origin Pragma Prefer Priority Range Referer
  Repr-Digest Save-Data Signature Signature-Input Upgrade-Insecure-Requests User-Agent Want-Content-Digest
  Want-Repr-Digest X-Requested-With Sec-CH-UA Sec-Fetch-Site Sec-GPC Sec-WebSocket-Key
`
  .trim()
  .split(/\s+/);

test.each(ORDINARY_NAMES)("what a browser or a client library adds passes: %s", (name) => {
  expect(forwarded([name, "1"])).toEqual([[name.toLowerCase(), "1"], ...OURS]);
});

test.each(["Sec-GPC-User", "X-Sec-Fetch-Site", "Sec-User"])(
  "a name that only resembles an ordinary family does not pass: %s",
  (name) => {
    expect(forwarded([name, "forged"])).toEqual(OURS);
  },
);

test("a Connection header drops nothing that an upstream gets", () => {
  const sent: [string, string][] = [
    ["idempotency-key", "k"],
    ["content-type", "application/json"],
    ["x-kept", "1"],
  ];
  const named: [string, string] = ["Connection", "close, Idempotency-Key, content-type, x-kept, x-user-id"];
  expect(forwardedWith(["x-kept"], named, ...sent)).toEqual([...sent, ...OURS]);
});

test("on a public route no identity is forwarded", () => {
  const call = { requestId: "id", traceparent: "tp" };
  const nobody = { access: null, call, approval: null };
  const headers = upstreamHeaders(["Authorization", "Basic x", "X-User-Id", "7"], nobody, null, new Set());
  expect(headers).toEqual(["x-request-id", "id", "traceparent", "tp"]);
});

test("an approval is named by the gateway only", () => {
  const claimed = ["Id", "Method", "Digest", "Use"].map((name) => `X-Approval-${name}`);
  claimed.push("Gatehouse-Approval");
  expect(forwarded(...claimed.map((name): [string, string] => [name, "claimed"]))).toEqual(OURS);
  for (const [isRepeated, use] of [
    [false, "first"],
    [true, "repeated"],
  ] as const) {
    const approval = { id: "approval-1", method: "totp", digest: "ab12", isRepeated };
    const sent = ["X-Approval-Id", "claimed", "X-Approval-Use", "claimed"];
    const headers = upstreamHeaders(sent, { ...caller, approval }, AUTHORIZATION, new Set());
    expect(headers.slice(headers.indexOf("x-approval-id"), headers.indexOf("x-request-id"))).toEqual([
      ...["x-approval-id", "approval-1", "x-approval-method", "totp", "x-approval-digest", "ab12"],
      ...["x-approval-use", use],
    ]);
  }
});

test.each([
  ["theme=dark; __Host-gatehouse-refresh=a.b.c; id=7", "theme=dark; id=7"],
  ["__Host-gatehouse-refresh=a.b.c; theme=dark", "theme=dark"],
  ["gatehouse_device=1.a.b; __Host-gatehouse_oauth=x; gatehouse_oauth=y; a=1", "a=1"],
  // What an upstream may read as the name.
  ["a=1; __HOST-GATEHOUSE-REFRESH=a.b.c; \u00a0__Host-gatehouse-refresh=a.b.c", "a=1"],
  ["=__Host-gatehouse-refresh=a.b.c; a=1", "a=1"],
  ["theme=gatehouse; a=b=c;d", "theme=gatehouse; a=b=c;d"],
])("of the cookies %j an upstream gets %j", (sent, passed) => {
  expect(forwarded(["cookie", sent])).toEqual([["cookie", passed], ...OURS]);
});

test("cookies of the gateway alone are not forwarded at all", () => {
  expect(forwarded(["Cookie", "__Host-gatehouse-refresh=a.b.c; gatehouse_device=1.a"])).toEqual(OURS);
  expect(forwardedWith(["cookie"], ["Cookie", "__Host-gatehouse-refresh=a.b.c"])).toEqual(OURS);
});
