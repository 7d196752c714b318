import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { BlockList } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { configSchema } from "./config.ts";
import { trustedProxies } from "./edge/request/trusted-proxies.ts";

const { ALLOWED_HOSTS, AUDIT_LOGS, BRAND_NAME, SUPPORT_URL, TERMS_URL, TRUSTED_PROXIES, WEB, WEB_LINKS } =
  configSchema.shape;

test("hosts are compared without case", () => {
  expect(ALLOWED_HOSTS.parse("API.example.com, [::1]:8080,localhost:8080")).toEqual(
    new Set(["api.example.com", "[::1]:8080", "localhost:8080"]),
  );
});

test("hosts are written in their normal form, and a default port may be named", () => {
  expect(ALLOWED_HOSTS.parse("a.example., [0:0::1]:08080, b.example:443")).toEqual(
    new Set(["a.example", "[::1]:8080", "b.example:443"]),
  );
});

test.each(["", " , ", "http://a", "a/b", "*", "a:b"])("%j names no hosts", (text) => {
  expect(ALLOWED_HOSTS.safeParse(text).success).toBe(false);
});

test("only addresses within the configured networks are trusted", () => {
  const isTrusted = trustedProxies(TRUSTED_PROXIES.parse("10.1.0.0/16, 192.0.2.7,2001:db8::/32"));
  for (const address of ["10.1.2.3", "::ffff:10.1.2.3", "192.0.2.7", "2001:db8::1"]) {
    expect(isTrusted(address), address).toBe(true);
  }
  for (const address of ["10.2.0.1", "192.0.2.8", "::1", "2001:db9::1", "rubbish", "", undefined]) {
    expect(isTrusted(address), address).toBe(false);
  }
});

test("no proxy is trusted by default", () => {
  expect(trustedProxies(TRUSTED_PROXIES.parse(undefined) ?? new BlockList())("127.0.0.1")).toBe(false);
});

test.each([
  "0.0.0.0/0",
  "0.0.0.0/1",
  "128.0.0.0/7",
  "::/0",
  "2000::/3",
  "2001::/15",
  "::/16",
  "::/80",
  "::ffff:0:0/96",
  "::ffff:0.0.0.0/103",
  "10.0.0.0/8, ::/0",
])("%s is too wide a network to trust", (text) => {
  expect(TRUSTED_PROXIES.safeParse(text).success).toBe(false);
});

test.each(["10.0.0.0/8", "2001::/16", "::1", "::ffff:10.0.0.0/104", "fd00::/64"])(
  "%s can be trusted",
  (text) => {
    expect(TRUSTED_PROXIES.safeParse(text).success).toBe(true);
  },
);

test("an address with a port is the address", () => {
  const isTrusted = trustedProxies(TRUSTED_PROXIES.parse("10.1.0.0/16,2001:db8::/32"));
  expect(isTrusted("10.1.2.3:4711")).toBe(true);
  expect(isTrusted("[2001:db8::1]:443")).toBe(true);
  expect(isTrusted("[2001:db8::1]")).toBe(true);
  expect(isTrusted("10.2.2.3:4711")).toBe(false);
});

test.each(["10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0/8", "host", "::/129", "10.0.0.0/8/8"])(
  "%s is no network",
  (text) => {
    expect(TRUSTED_PROXIES.safeParse(text).success).toBe(false);
  },
);

test.each([
  ["2", { acr: 2 }],
  ["2:900", { acr: 2, maxAgeSeconds: 900 }],
  ["1:60", { acr: 1, maxAgeSeconds: 60 }],
])("the administration may demand the assurance %s", (text, expected) => {
  expect(configSchema.shape.ADMIN_ASSURANCE.parse(text)).toEqual(expected);
});

test.each(["", "0", "4", "1", "2:", "2:29", "2:9999999", "2:60.5", "2:-1", "acr2"])(
  "%j is no assurance",
  (text) => {
    expect(configSchema.shape.ADMIN_ASSURANCE.safeParse(text).success).toBe(false);
  },
);

test("WEB=off reads no pages, and another word is refused", () => {
  expect(WEB.parse("off")).toEqual([]);
  expect(WEB.safeParse("false").success).toBe(false);
});

test("links for the list at / are names with addresses", () => {
  expect(WEB_LINKS.parse("Mailbox=http://127.0.0.1:1080, Log in=/auth/demo?a=b")).toEqual([
    { name: "Mailbox", url: "http://127.0.0.1:1080" },
    { name: "Log in", url: "/auth/demo?a=b" },
  ]);
});

test.each([
  "Mailbox",
  "=/x",
  "Mailbox=mail.example",
  "X=javascript:alert(1)",
  "X=data:text/html,x",
  "X=/a b",
])("%j is no link", (text) => {
  expect(WEB_LINKS.safeParse(text).success).toBe(false);
});

test("the operator's addresses are those that a browser opens, in its spelling", () => {
  expect(SUPPORT_URL.parse("mailto:help@shop.example")).toBe("mailto:help@shop.example");
  expect(TERMS_URL.parse("https://SHOP.example/our terms")).toBe("https://shop.example/our%20terms");
  for (const url of ["javascript:alert(1)", "data:text/html,x", "/terms", `https://a/${"x".repeat(500)}`])
    expect([url, SUPPORT_URL.safeParse(url).success]).toEqual([url, false]);
  expect(TERMS_URL.safeParse("mailto:help@shop.example").success).toBe(false);
});

test("a brand's name is one that every place can show", () => {
  for (const name of ["Müller & Söhne", "L'Été", "Yahoo!", "7"]) expect(BRAND_NAME.parse(name)).toBe(name);
  for (const name of ["<b>", "Shop:1", "a\nb", " a", "&", "x".repeat(65), 'a"'])
    expect([name, BRAND_NAME.safeParse(name).success]).toEqual([name, false]);
});

test("audit logs are distinct numbers of one byte; without any it is log 0", () => {
  expect(AUDIT_LOGS.parse(undefined)).toEqual([0]);
  expect(AUDIT_LOGS.parse("3, 0,255")).toEqual([3, 0, 255]);
  for (const text of ["", ",", "a", "-1", "256", "1.5", "1,1", "1,01", "0x1", "1 2", "0,1e1"])
    expect([text, AUDIT_LOGS.safeParse(text).success]).toEqual([text, false]);
});

test("a spool has at least 64 MiB for each audit log", () => {
  const problems = (bytes: number, logs: string) =>
    problemsOf(PUBLIC_ROUTE, {
      AUDIT_SPOOL_DIRECTORY: "/var/spool",
      AUDIT_SPOOL_MAX_BYTES: String(bytes),
      AUDIT_LOGS: logs,
    });
  expect(problems(201_326_592, "0,1,2")).toEqual([]);
  expect(problems(201_326_591, "0,1,2")).toEqual([
    "AUDIT_SPOOL_MAX_BYTES: must be at least 201326592, 64 MiB for each of AUDIT_LOGS",
  ]);
  expect(problemsOf(PUBLIC_ROUTE, { AUDIT_LOGS: "0,1,2,3,4" })).toEqual([]); // without a spool
});

/** Of a whole configuration with one route. */
function problemsOf(route: string, change: Record<string, string> = {}): string[] {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-config-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [file, key] = [join(folder, "routes.yaml"), join(folder, "key.pem")];
  writeFileSync(key, "key", { mode: 0o400 });
  writeFileSync(file, `routes: [{ prefix: /a, upstream: 'http://a', ${route} }]`);
  const { error } = configSchema.safeParse({
    ...{ LISTEN_ADDRESS: "127.0.0.1:1", OPERATIONS_ADDRESS: "127.0.0.1:2", ROUTES_FILE: file },
    ...{ IDENTITY_SERVICE_ADDRESS: "a:1", TOKEN_SERVICE_ADDRESS: "a:1", AUDIT_SERVICE_ADDRESS: "a:1" },
    EVENT_SERVICE_ADDRESS: "a:1",
    ...{ TLS_CERT_FILE: file, TLS_KEY_FILE: key, TLS_CA_FILE: file, ALLOWED_HOSTS: "auth.example" },
    WEB: "off",
    ...change,
  });
  return error?.issues.map(({ path, message }) => `${path.join(".")}: ${message}`) ?? [];
}
const PUBLIC_ROUTE = "methods: { GET: { auth: public } }";

test("a route whose audience is the gateway itself stops the start", () => {
  const problems = (audience: string) => problemsOf(`audience: '${audience}', ${PUBLIC_ROUTE}`);
  expect(problems("https://auth.example/")).toEqual([
    expect.stringMatching(/^ROUTES_FILE: .*line 1, routes\.0\.audience: is the gateway's own origin/s),
  ]);
  expect(problems("https://payments.example")).toEqual([]);
});

test("the origin of the pages is one of a host that is served, and not where the routes are", () => {
  const problems = (origin: string) =>
    problemsOf(PUBLIC_ROUTE, { PAGES_ORIGIN: origin, PUBLIC_ORIGIN: "https://auth.example" });
  expect(problems("https://evil.example")).toEqual(["PAGES_ORIGIN: is none of ALLOWED_HOSTS"]);
  expect(problems("https://auth.example")).toEqual([
    "PAGES_ORIGIN: is PUBLIC_ORIGIN, where the routes are served",
  ]);
  expect(problems("auth.example")).toEqual(["PAGES_ORIGIN: must be scheme://host[:port]"]);
});

test("the public origin is an origin, of a host that is served", () => {
  const problems = (origin: string) => problemsOf(PUBLIC_ROUTE, { PUBLIC_ORIGIN: origin });
  expect(problems("https://auth.example")).toEqual([]);
  expect(problems("https://evil.example")).toEqual(["PUBLIC_ORIGIN: is none of ALLOWED_HOSTS"]);
  for (const text of ["https://auth.example/", "auth.example", "javascript:x", ""])
    expect(problems(text)).toEqual(
      expect.arrayContaining([expect.stringMatching(/^PUBLIC_ORIGIN: must be/)]),
    );
});

test("an operator's colours that nobody could read stop the start", () => {
  const folder = mkdtempSync(join(tmpdir(), "gatehouse-brand-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "brand.css");
  writeFileSync(file, ":root {\n  --on-danger: light-dark(#ffffff, #ffffff);\n}\n");
  const [first = "", ...more] = problemsOf(PUBLIC_ROUTE, { BRAND_STYLE_FILE: file });
  expect(first).toContain("--on-danger #ffffff has a contrast of 2.3 on --danger #f2938a of dark pages");
  expect(more).toHaveLength(1);
});
