import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readOwnRoutes } from "#access-file/own-routes.ts";
import { MAX_LENGTH } from "#audit-client/stream/audit-entry.ts";
import { ConfigError } from "#kit/config/config.ts";
import { parseRoutesFile } from "./routes-file.ts";

function problemsOf(text: string): string[] {
  try {
    parseRoutesFile(text);
  } catch (error) {
    if (error instanceof ConfigError)
      return error.message
        .split("\n")
        .slice(1)
        .map((line) => line.trim());
    throw error;
  }
  return [];
}

test("a method demands permissions, roles or nothing of them", () => {
  const text = (access: string) =>
    `routes: [{ prefix: /a, upstream: 'http://a', methods: { GET: { ${access} } } }]`;
  const policy = parseRoutesFile(text("permissions: [payments:read, audit:read:user]"))[0]?.methods.GET;
  expect(policy).toEqual({ auth: "authenticated", permissions: ["payments:read", "audit:read:user"] });
  for (const access of [
    "permissions: []",
    "permissions: [Payments]",
    "permissions: ['*']",
    "permissions: [a:b], roles: [USER]",
    "permissions: [a:b], auth: public",
    "permissions: [a:b], auth: authenticated",
  ])
    expect(problemsOf(text(access)), access).toHaveLength(1);
});

test("an action is no longer than what the audit log keeps of it: two that it cuts would be one", () => {
  const text = (action: string) =>
    `routes: [{ prefix: /a, upstream: 'http://a', methods: { POST: { roles: [USER], action: ${action} } } }]`;
  const longest = `a.${"b".repeat(MAX_LENGTH.action - 2)}`;
  expect(parseRoutesFile(text(longest))[0]?.methods.POST?.action).toBe(longest);
  expect(problemsOf(text(`${longest}b`))).toHaveLength(1);
});

test("the routes of a local Gatehouse can be used", () => {
  const file = new URL("../../deploy/local/routes.yaml", import.meta.url);
  const [payments] = parseRoutesFile(readFileSync(file, "utf8"));
  expect(payments?.prefix).toBe("/payments");
  expect(payments?.methods.DELETE?.auth).toEqual({ roles: ["ADMIN"] });
});

test("what is not said has a default", () => {
  const text = "routes: [{ prefix: /a, upstream: 'http://a:8080/', methods: { GET: { roles: [USER] } } }]";
  expect(parseRoutesFile(text)).toEqual([
    {
      prefix: "/a",
      upstreams: ["http://a:8080"],
      stripPrefix: false,
      forwarded: true,
      connectTimeoutMs: 2_000,
      headersTimeoutMs: 10_000,
      idleTimeoutMs: 10_000,
      totalTimeoutMs: 120_000,
      allowRequestHeaders: [],
      allowResponseHeaders: [],
      pages: "sandboxed",
      cookies: "prefix",
      passToken: true,
      strictPaths: true,
      streaming: false,
      minBodyBytesPerS: 10_240,
      maxOpenPerCaller: 32,
      maxWebSocketsPerCaller: 8,
      bodyLimitBytes: 16_777_216,
      allowedOrigins: [],
      websocket: false,
      rateLimit: {
        perUser: { calls: 600, perSeconds: 60 },
        perAddress: { calls: 6_000, perSeconds: 60 },
        total: undefined,
      },
      methods: { GET: { auth: { roles: ["USER"] } } },
    },
  ]);
});

test.each([
  { said: "streaming: true", expected: undefined },
  { said: "streaming: true, totalTimeoutMs: 5000", expected: 5_000 },
  { said: "totalTimeoutMs: 5000", expected: 5_000 },
  { said: "headersTimeoutMs: 200000", expected: 210_000 },
])("with $said a call as a whole may take $expected ms", ({ said, expected }) => {
  const text = `routes: [{ prefix: /a, upstream: 'http://a', ${said}, methods: { GET: { roles: [USER] } } }]`;
  expect(parseRoutesFile(text)[0]?.totalTimeoutMs).toBe(expected);
});

const withToken = (said: string) =>
  `routes: [{ prefix: /a, upstream: 'http://a', ${said}, methods: { GET: { roles: [USER] } } }]`;

test.each([
  ["audience: payments", { audience: "payments", passToken: true }],
  ["audience: 'https://payments.example/v1'", { audience: "https://payments.example/v1", passToken: true }],
  ["audience: payments, passToken: true", { audience: "payments", passToken: true }],
  ["passToken: false", { passToken: false }],
])("what the upstream gets as its token: %s", (said, expected) => {
  expect(parseRoutesFile(withToken(said))[0]).toMatchObject(expected);
});

test.each([
  ["audience: payments, passToken: false", "audience: is of no use with passToken: false"],
  ["audience: ''", "audience: must be a URI or a name"],
  ["audience: two words", "audience: must be a URI or a name"],
  ["audience: [payments]", "audience: "],
  ["passToken: 'no'", "passToken: "],
])("%s is a problem", (said, problem) => {
  expect(problemsOf(withToken(said))).toEqual([expect.stringContaining(`line 1, routes.0.${problem}`)]);
});

test("no upstream gets tokens for the gateway itself, however its origin is written", () => {
  const hosts = new Set(["auth.example", "[::1]:8080"]);
  const problem = (audience: string) => {
    try {
      parseRoutesFile(withToken(`audience: '${audience}'`), hosts);
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (const own of [
    "https://auth.example",
    "http://auth.example/",
    "HTTPS://Auth.Example:443",
    "http://[::1]:8080",
  ])
    expect(problem(own), own).toMatch(/line 1, routes\.0\.audience: is the gateway's own origin/);
  for (const foreign of ["https://auth.example/payments", "https://pay.auth.example", "auth.example"])
    expect(problem(foreign), foreign).toBeUndefined();
});

test("every problem is reported at once, with its line and key", () => {
  const text = `
routes:
  - prefix: /payments/
    upstream: ftp://payments
    timeoutMs: 1.5
    retries: 3
    methods:
      GET: { roles: [root] }
      POST: { roles: [USER] }
      TRACE: { roles: [USER] }
  - prefix: /auth/login
    methods: {}
extra: 1
`;
  expect(problemsOf(text)).toEqual([
    expect.stringMatching(/^line 3, routes\.0\.prefix: must be a path/),
    "line 4, routes.0.upstream: must be an http or https URL",
    expect.stringMatching(/^line 5, routes\.0\.timeoutMs: /),
    "line 6, routes.0.retries: is not known",
    expect.stringMatching(/^line 8, routes\.0\.methods\.GET\.roles\.0: /),
    "line 9, routes.0.methods.POST.action: is required",
    "line 10, routes.0.methods.TRACE: is not known",
    "line 11, routes.1.prefix: is a path of the gateway itself",
    "line 11, routes.1.upstream: is required (or upstreams)",
    "line 12, routes.1.methods: must have a method",
    "line 13, extra: is not known",
  ]);
});

test.each([
  "/auth",
  "/admin/x",
  "/v1",
  "/v2/payments",
  "/docs",
  "/Payments",
  "payments",
  "/a//b",
  "/a/../b",
  "/a/*",
])("the prefix %s is refused", (prefix) => {
  const text = `routes: [{ prefix: '${prefix}', upstream: 'http://a', methods: { GET: { roles: [USER] } } }]`;
  expect(problemsOf(text)).toHaveLength(1);
});

test("no prefix takes a path that the gateway serves itself", () => {
  const isTaken = (prefix: string) =>
    problemsOf(`routes: [{ prefix: '${prefix}', upstream: 'http://a', methods: { GET: { roles: [USER] } } }]`)
      .length > 0;
  const first = new Set(readOwnRoutes().map(({ path }) => path.split("/", 2).join("/")));
  expect([...first].filter((prefix) => !isTaken(prefix))).toEqual([]);
});

test.each(["http://a/path", "http://user:pass@a", "http://a?x", "a:80"])(
  "the upstream %s is refused",
  (upstream) => {
    const text = `routes: [{ prefix: /a, upstream: '${upstream}', methods: { GET: { roles: [USER] } } }]`;
    expect(problemsOf(text)).toHaveLength(1);
  },
);

test("two routes that could both take a path are refused", () => {
  const route = (prefix: string) =>
    `{ prefix: ${prefix}, upstream: 'http://a', methods: { GET: { roles: [USER] } } }`;
  expect(problemsOf(`routes: [${route("/a")}, ${route("/a/b")}]`)).toEqual([
    "line 1, routes.1.prefix: overlaps with /a",
  ]);
  expect(problemsOf(`routes: [${route("/a")}, ${route("/ab")}]`)).toEqual([]);
});

test.each(["routes: [", "routes: []\nroutes: []", "a: &x [*x]", ""])(
  "an invalid routes file is refused: %j",
  (text) => {
    expect(problemsOf(text).length).toBeGreaterThan(0);
  },
);

test("a rate limit overrides only its own default", () => {
  const limits = "rateLimit: { perUser: { calls: 5, perSeconds: 1 } }";
  const [route] = parseRoutesFile(
    `routes: [{ prefix: /a, upstream: 'http://a', ${limits}, methods: { GET: { auth: public } } }]`,
  );
  expect(route?.rateLimit.perUser).toEqual({ calls: 5, perSeconds: 1 });
  expect(route?.rateLimit.perAddress).toEqual({ calls: 6_000, perSeconds: 60 });
  expect(route?.rateLimit.total).toBeUndefined();
});

test("an invalid rate limit is refused with its line and key", () => {
  const text = `
routes:
  - prefix: /a
    upstream: http://a
    methods: { GET: { auth: public } }
    rateLimit:
      perUser: { calls: 0, perSeconds: 60 }
      perAddress: { calls: 10 }
      total: 100
      perToken: { calls: 1, perSeconds: 1 }
`;
  expect(problemsOf(text)).toEqual([
    expect.stringMatching(/^line 7, routes\.0\.rateLimit\.perUser\.calls: /),
    "line 8, routes.0.rateLimit.perAddress.perSeconds: is required",
    expect.stringMatching(/^line 9, routes\.0\.rateLimit\.total: /),
    "line 10, routes.0.rateLimit.perToken: is not known",
  ]);
});

const withHeader = (name: string) =>
  `routes: [{ prefix: /a, upstream: 'http://a:8080/', allowRequestHeaders: [${name}], methods: { GET: { roles: [USER] } } }]`;

test("headers that a route allows are compared without case", () => {
  expect(parseRoutesFile(withHeader("Remote-User"))[0]?.allowRequestHeaders).toEqual(["remote-user"]);
});

test.each([
  "Authorization",
  "Host",
  "X-User-Id",
  "x-user-role",
  "X-Session-Id",
  "X-Auth-Context",
  "x-auth-time",
  "X-Forwarded-For",
  "X-Forwarded-User",
  "X-Actor-User-Id",
  "X-Approval-Id",
  "X-Approval-Use",
  "Gatehouse-Approval",
  "Gatehouse-Client",
  "DPoP",
  "Client-Cert",
  "Client-Cert-Chain",
  "X-Client-Id",
  "X-Scope",
  "Forwarded",
  "X-Request-Id",
  "traceparent",
  "Connection",
  "Proxy-Authorization",
  "Transfer-Encoding",
  "Content-Length",
  "x_user_id",
  "'a b'",
  "''",
])("no route can let a client's %s pass", (name) => {
  expect(problemsOf(withHeader(name))).toHaveLength(1);
});

const withApproval = (approval: string, access = "roles: [USER]") => `routes:
  - prefix: /a
    upstream: http://a
    methods:
      POST: { ${access}, action: a.create, approval: ${approval} }
`;

test("an approval names the fields, the threshold, the level and the time", () => {
  const demand =
    "{ fields: [/amount, /a~1b/0/c], when: { field: /amount, above: 100.5 }, acr: 3, ttlSeconds: 60 }";
  expect(parseRoutesFile(withApproval(demand))[0]?.methods.POST?.approval).toEqual({
    fields: ["/amount", "/a~1b/0/c"],
    when: { field: "/amount", above: 100.5 },
    acr: 3,
    ttlSeconds: 60,
  });
  expect(parseRoutesFile(withApproval("{ fields: [/amount] }"))[0]?.methods.POST?.approval).toEqual({
    fields: ["/amount"],
    when: undefined,
    acr: 2,
    ttlSeconds: 300,
  });
});

test.each([
  ["no field", "{ fields: [] }", "fields: must name a field"],
  ["no pointer", "{ fields: [amount] }", "fields.0: must be a JSON pointer"],
  ["the whole body", "{ fields: [''] }", "fields.0: must be a JSON pointer"],
  ["a broken escape", "{ fields: [/a~2] }", "fields.0: must be a JSON pointer"],
  ["a field twice", "{ fields: [/a, /b, /a] }", "fields.2: appears more than once"],
  ["a field in a field", "{ fields: [/a/b, /a] }", "fields.1: overlaps with /a/b"],
  [
    "too many fields",
    `{ fields: [${Array.from({ length: 17 }, (_, i) => `/f${i}`).join(", ")}] }`,
    "fields: ",
  ],
  ["a long pointer", `{ fields: [/${"a".repeat(200)}] }`, "fields.0: "],
  [
    "a field that is not approved",
    "{ fields: [/a], when: { field: /b, above: 1 } }",
    "when.field: must be one",
  ],
  ["a text as threshold", "{ fields: [/a], when: { field: /a, above: '1' } }", "when.above: "],
  ["no finite threshold", "{ fields: [/a], when: { field: /a, above: .inf } }", "when.above: "],
  ["one factor", "{ fields: [/a], acr: 1 }", "acr: "],
  ["a short time", "{ fields: [/a], ttlSeconds: 29 }", "ttlSeconds: "],
  ["a long time", "{ fields: [/a], ttlSeconds: 901 }", "ttlSeconds: "],
  ["an unknown key", "{ fields: [/a], unless: 1 }", "unless: is not known"],
])("an approval with %s is refused by name", (_name, demand, expected) => {
  const [problem, ...others] = problemsOf(withApproval(demand));
  expect(others).toEqual([]);
  expect(problem).toMatch(/^line 5, routes\.0\.methods\.POST\.approval\./);
  expect(problem).toContain(`approval.${expected}`);
});

test("only a changing method with a user can demand an approval", () => {
  expect(problemsOf(withApproval("{ fields: [/a] }", "auth: public"))).toEqual([
    "line 5, routes.0.methods.POST.approval: needs a user: the method must not be public",
  ]);
  const reading = withApproval("{ fields: [/a] }").replace("POST", "GET");
  expect(problemsOf(reading)).toEqual(["line 5, routes.0.methods.GET.approval: is not known"]);
});

const withAssurance = (assurance: string, access = "roles: [USER]") =>
  `routes: [{ prefix: /a, upstream: 'http://a:8080/', methods: { GET: { ${access}, assurance: ${assurance} } } }]`;

test.each([
  ["{ acr: 2 }", { acr: 2 }],
  ["{ acr: 3, maxAgeSeconds: 30 }", { acr: 3, maxAgeSeconds: 30 }],
  ["{ acr: 1, maxAgeSeconds: 2592000 }", { acr: 1, maxAgeSeconds: 2_592_000 }],
])("a method may demand the assurance %s", (text, expected) => {
  expect(parseRoutesFile(withAssurance(text))[0]?.methods.GET?.assurance).toEqual(expected);
});

test.each([
  ["{ acr: 4 }", "routes.0.methods.GET.assurance.acr: must be 1, 2 or 3"],
  ["{ acr: '2' }", "routes.0.methods.GET.assurance.acr: must be 1, 2 or 3"],
  ["{ maxAgeSeconds: 300 }", "routes.0.methods.GET.assurance.acr: is required"],
  [
    "{ acr: 1 }",
    "routes.0.methods.GET.assurance.maxAgeSeconds: is required with acr 1, which every token has",
  ],
  ["{ acr: 2, maxAgeSeconds: 29 }", "routes.0.methods.GET.assurance.maxAgeSeconds"],
  ["{ acr: 2, maxAgeSeconds: 2592001 }", "routes.0.methods.GET.assurance.maxAgeSeconds"],
  ["{ acr: 2, maxAgeSeconds: 60.5 }", "routes.0.methods.GET.assurance.maxAgeSeconds"],
  ["{ acr: 2, maxAge: 60 }", "maxAge"],
  ["2", "routes.0.methods.GET.assurance"],
])("the assurance %s is refused", (text, problem) => {
  expect(() => parseRoutesFile(withAssurance(text))).toThrow(problem);
});

test("a public method cannot demand an assurance", () => {
  expect(() => parseRoutesFile(withAssurance("{ acr: 2 }", "auth: public"))).toThrow(
    "routes.0.methods.GET.assurance: needs a caller: not with auth: public",
  );
});
