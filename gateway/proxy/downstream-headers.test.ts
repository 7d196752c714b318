import { expect, test } from "vitest";
import { parseRoutesFile } from "#routes-file/routes-file.ts";
import { STANDARD_HEADERS } from "../edge/answers/standard-headers.ts";
import type { ProxyTarget } from "../routing/proxy-table.ts";
import { addDownstreamHeaders, passableHints, passableTrailers } from "./downstream-headers.ts";

const STANDARD = Object.entries(STANDARD_HEADERS).flat();
const [NO_SNIFFING, POLICY, REFERRER] = Object.entries(STANDARD_HEADERS);

function targetOf(settings = "", version = ""): ProxyTarget {
  const route = `{ prefix: /shop, upstream: 'http://a:1', ${settings} methods: { GET: { auth: public } } }`;
  const [parsed] = parseRoutesFile(`routes: [${route}]`);
  const allowedResponseHeaderSet = new Set(parsed?.allowResponseHeaders);
  return { route: { ...parsed, allowedResponseHeaderSet }, version } as unknown as ProxyTarget;
}

function passed(sent: readonly string[], target = targetOf()): string[] {
  const headers: string[] = [];
  addDownstreamHeaders(headers, sent, target);
  return headers;
}
const valuesOf = (name: string, headers: readonly string[]) =>
  headers.filter((_, index) => index % 2 === 1 && headers[index - 1] === name);

test("an answer loses its connection's headers and what it says about the upstream", () => {
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
  const raw = [...Object.entries(sent).flat(), "X-Name", "\xe4"];
  const headers: string[] = [];
  addDownstreamHeaders(
    headers,
    raw.map((text) => Buffer.from(text, "latin1")),
    targetOf(),
  );
  expect(headers).toEqual(["content-type", "text/plain", "x-name", "\xe4", ...STANDARD]);
});

const NEVER = `
  Connection Keep-Alive Proxy-Authenticate Proxy-Authorization Proxy-Connection TE Trailer Transfer-Encoding Upgrade
  HTTP2-Settings Server X-Powered-By X-Request-Id Strict-Transport-Security Via Access-Control-Allow-Credentials
  Access-Control-Allow-Origin Access-Control-Expose-Headers NEL Report-To Reporting-Endpoints Clear-Site-Data
  Service-Worker-Allowed Alt-Svc Origin-Agent-Cluster Origin-Trial Accept-CH Accept-CH-Lifetime Critical-CH Public-Key-Pins
  Public-Key-Pins-Report-Only Expect-CT Expect-Staple Set-Login Activate-Storage-Access Observe-Browsing-Topics
  Supports-Loading-Mode Use-As-Dictionary Attribution-Reporting-Register-Source Secure-Session-Registration
  Sec-Session-Registration Shared-Storage-Write Ad-Auction-Signals X-Allow-FLEDGE X-Permitted-Cross-Domain-Policies
  Set-Cookie2 DPoP-Nonce Gatehouse-Answer Gatehouse-Device Gatehouse-Anything RateLimit RateLimit-Limit RateLimit-Policy
  X-Accel-Redirect X-Sendfile X-LIGHTTPD-send-file X-LiteSpeed-Location X-Envoy-Immediate-Health-Check-Fail X-Envoy-Degraded
`
  .trim()
  .split(/\s+/);

test.each(NEVER)("an upstream's %s does not reach the client, and no route can allow it", (name) => {
  const sent = [name, "theirs", name.toLowerCase(), "again", "X-Total-Count", "1"];
  expect(passed(sent)).toEqual(["x-total-count", "1", ...STANDARD]);
  expect(passableTrailers([name, "theirs"], targetOf().route)).toEqual([]);
  expect(() => targetOf(`allowResponseHeaders: [${name}],`)).toThrow("speaks for the whole origin");
});

test.each([
  "Permissions-Policy",
  "Document-Policy",
  "Cross-Origin-Opener-Policy",
  "Cross-Origin-Resource-Policy",
  "Speculation-Rules",
  "No-Vary-Search",
  "SourceMap",
  "Timing-Allow-Origin",
  "Mcp-Session-Id",
  "Grpc-Status",
  "Nobody-Knows-This",
])("%s reaches the client only where the route names it", (name) => {
  const lower = name.toLowerCase();
  expect(passed([name, "1"])).toEqual(STANDARD);
  expect(passed([name, "1"], targetOf("allowResponseHeaders: [X-Other],"))).toEqual(STANDARD);
  const allowing = targetOf(`allowResponseHeaders: [${name}],`);
  expect(passed([name, "1"], allowing)).toEqual([lower, "1", ...STANDARD]);
  expect(passableTrailers([name, "1"], allowing.route)).toEqual([[lower, "1"]]);
});

const ORDINARY = `
  Accept-Patch Accept-Post Accept-Ranges Age Allow Cache-Control Content-Digest Content-Disposition Content-Encoding
  Content-Language Content-Length Content-Location Content-MD5 Content-Range Content-Type Date Deprecation Digest ETag Expires
  Last-Modified Link Location Pragma Preference-Applied Refresh Repr-Digest Retry-After Server-Timing Signature
  Signature-Input Sunset Vary Want-Content-Digest Want-Repr-Digest Warning WWW-Authenticate X-Total-Count
  X-Access-Control-Version X-RateLimit-Limit X-Accel-Buffering X-Frame-Options Sec-WebSocket-Accept Sec-WebSocket-Protocol
`
  .trim()
  .split(/\s+/);

test.each(ORDINARY)("what says something of the answer alone passes: %s", (name) => {
  expect(passed([name, "1"])).toEqual([name.toLowerCase(), "1", ...STANDARD]);
});

test.each([
  ['Bearer realm="basic"', true],
  ['DPoP algs="ES256"', true],
  ['Basic realm="bank"', false],
  ['Bearer, basic realm="bank"', false],
  ["Negotiate", false],
  ['DIGEST realm="x"', false],
  ["NTLM", false],
])("a challenge passes unless a browser would ask the person for a password: %s", (value, isPassed) => {
  expect(valuesOf("www-authenticate", passed(["WWW-Authenticate", value]))).toEqual(isPassed ? [value] : []);
});

test("an upstream's own policy for browsers stays as it is", () => {
  const headers = passed(["Content-Security-Policy", "default-src 'self'", "Referrer-Policy", "origin"]);
  expect(valuesOf("content-security-policy", headers)).toEqual(["default-src 'self'"]);
  expect(valuesOf("referrer-policy", headers)).toEqual(["origin"]);
});

test("no upstream turns sniffing on: an answer without a type is no page", () => {
  for (const sent of [[], ["X-Content-Type-Options", "none"]])
    for (const settings of ["", "pages: trusted,"])
      expect(valuesOf("x-content-type-options", passed(sent, targetOf(settings)))).toEqual(["nosniff"]);
});

const ACTIVE = [
  "text/html",
  "Text/HTML; charset=utf-8",
  "application/xhtml+xml",
  "image/svg+xml",
  "application/xml",
  "text/xml",
  "text/xsl",
  "application/rss+xml",
  "multipart/x-mixed-replace; boundary=a",
];

test.each(ACTIVE)("%s of an upstream is sandboxed, beside its own policy", (type) => {
  expect(valuesOf("content-security-policy", passed(["Content-Type", type]))).toEqual([
    POLICY?.[1],
    "sandbox",
  ]);
  const own = ["Content-Security-Policy", "default-src *; sandbox allow-scripts allow-same-origin"];
  for (const sent of [
    ["Content-Type", type, ...own],
    [...own, "Content-Type", "text/plain", "content-type", type],
  ])
    expect(valuesOf("content-security-policy", passed(sent))).toEqual([own[1], "sandbox"]);
});

test.each(ACTIVE)("a route with trusted pages leaves %s to its upstream", (type) => {
  const headers = passed(["Content-Type", type], targetOf("pages: trusted,"));
  expect(headers).toEqual(["content-type", type, ...(NO_SNIFFING ?? [])]);
  const own = ["content-security-policy", "default-src 'self'", ...(REFERRER ?? [])];
  expect(passed(own, targetOf("pages: trusted,"))).toEqual([...own, ...(NO_SNIFFING ?? [])]);
});

test.each(["application/json", "text/plain", "application/pdf", "image/png", "text/css", "text/javascript"])(
  "%s is not sandboxed",
  (type) => {
    expect(passed(["Content-Type", type])).toEqual(["content-type", type, ...STANDARD]);
  },
);

const cookies = (target: ProxyTarget, ...sent: string[]) =>
  valuesOf(
    "set-cookie",
    passed(
      sent.flatMap((value) => ["Set-Cookie", value]),
      target,
    ),
  );

test.each([
  ["a=1", "a=1; Path=/shop"],
  ["a=1; Path=/", "a=1; Path=/shop"],
  ["a=1; path=/; HttpOnly; Secure", "a=1; HttpOnly; Secure; Path=/shop"],
  ["a=1; Path=/shop/cart", "a=1; Path=/shop/cart"],
  ["a=1; Path=/shop", "a=1; Path=/shop"],
  ["a=1; Path=/shopping", "a=1; Path=/shop"],
  ["a=1; Path=/shop; Path=/", "a=1; Path=/shop"],
  ["a=1; Path=/auth; Domain=example.com", "a=1; Path=/shop"],
  ["a=1; DOMAIN = .example.com ;\tpAtH =/account", "a=1; Path=/shop"],
  ["a=1; Path", "a=1; Path=/shop"],
  ["a=1; Path=shop", "a=1; Path=/shop"],
  ["a=1; Path=/shop/=x", "a=1; Path=/shop/=x"],
  [`a=1; Path=/shop/${"x".repeat(1_100)}`, "a=1; Path=/shop"],
  ["path=/; domain=x", "path=/; Path=/shop"],
])("the cookie %j of an upstream is one of its route", (sent, expected) => {
  expect(cookies(targetOf(), sent)).toEqual([expected]);
});

test.each([
  ["a=1; Path=/", "a=1; Path=/v1/shop"],
  ["a=1; Path=/cart", "a=1; Path=/v1/shop/cart"],
  ["a=1; Path=/v1/shop/cart", "a=1; Path=/v1/shop/cart"],
  ["a=1; Path=/shop", "a=1; Path=/shop"],
  ["a=1", "a=1; Path=/v1/shop"],
])(
  "behind stripPrefix, and under /v1, the cookie %j is written as the client sees its path",
  (sent, expected) => {
    expect(cookies(targetOf("stripPrefix: true,", "/v1"), sent)).toEqual([expected]);
  },
);

test("under /v1 the path of a cookie has it, too", () => {
  expect(cookies(targetOf("", "/v1"), "a=1; Path=/shop/cart")).toEqual(["a=1; Path=/v1/shop/cart"]);
});

const OWN = [
  "__Host-gatehouse-refresh=evil.jwt.text; Path=/; Secure",
  " __host-Gatehouse-Refresh=; Max-Age=0",
  "gatehouse_device=x; Path=/auth",
  "__Host-gatehouse_oauth=x; Path=/; Secure",
];

test("a route may leave cookies as they are, but never the gateway's own names", () => {
  const theirs = ["theme=dark; Path=/", "a=1; Path=/__Host-gatehouse-refresh; Domain=example.com"];
  expect(cookies(targetOf("cookies: origin,"), ...OWN, ...theirs)).toEqual(theirs);
  expect(cookies(targetOf(), ...OWN, "a=1")).toEqual(["a=1; Path=/shop"]);
});

test("one answer sets at most 20 cookies of 8192 characters together", () => {
  const many = Array.from({ length: 200 }, (_, index) => `a${index}=1`);
  expect(cookies(targetOf(), ...many)).toEqual(many.slice(0, 20).map((each) => `${each}; Path=/shop`));
  const large = ["a", "b", "c"].map((name) => `${name}=${"x".repeat(4_094)}`);
  expect(cookies(targetOf("cookies: origin,"), ...large)).toEqual(large.slice(0, 2));
});

test("trailers that say how to read the body do not pass; names of applications do", () => {
  const withheld = {
    "content-length": "5",
    "transfer-encoding": "x",
    host: "h",
    "set-cookie": ["a"],
    authorization: "a",
    "www-authenticate": "a",
    "cache-control": "a",
    vary: "a",
    location: "/",
  };
  const wanted = { "x-checksum": "1", "x-content-sum": "1", "server-timing": "a", "repr-digest": "a" };
  const trailers = Object.entries({ ...withheld, ...wanted }).flat(2);
  expect(passableTrailers(trailers, targetOf().route)).toEqual(Object.entries(wanted));
});

test.each([
  ["</a.css>; rel=preload", ["</a.css>; rel=preload"]],
  [" </a>;rel=preload ,\t</b> ; rel = preload", ["</a>;rel=preload"]],
  ["</a>; rel=preload, <>; rel=preload", ["</a>; rel=preload", "<>; rel=preload"]],
  ['</a,b>; rel="preload"; as=style; nopush', ['</a,b>; rel="preload"; as=style; nopush']],
  ["</a>", ["</a>"]],
  ["/a; rel=preload", []],
  ["x, </a>; rel=preload", ["</a>; rel=preload"]],
  ["</a b>; rel=preload", []],
  ["</a; rel=preload", []],
  ["<</a>; rel=preload", ["<</a>; rel=preload"]],
  ["</a>x; rel=preload", []],
  ["</a>; rel=preload; =x", []],
  ['</a>; title="two words"', []],
  ['</a>; title="open', []],
  ["</a>; title=a b", []],
])("of the early hints %j pass %j", (link, hints) => {
  expect(passableHints(["Link", link])).toEqual(hints);
  expect(passableHints(["X-Link", link, "X", "1"])).toEqual([]);
});

test("a trailer that changes how the message is read is none; names that only begin alike are", () => {
  const names = [
    "set-cookie",
    "www-authenticate",
    "cache-control",
    "vary",
    "location",
    "refresh",
    "referrer-policy",
  ];
  const target = { allowedResponseHeaderSet: new Set(names.map((name) => `${name}s`)) };
  const trailers = [...names, "content-digest"].flatMap((name) => [name, "x"]);
  expect(passableTrailers(trailers, target)).toEqual([]);
  const others = names.flatMap((name) => [`${name}s`, "x"]);
  expect(passableTrailers(others, target)).toEqual(names.map((name) => [`${name}s`, "x"]));
});
