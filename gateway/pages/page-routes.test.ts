import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { builtInLanguages, PageLanguages, type Texts } from "#kit/config/page-languages.ts";
import { cacheable } from "../edge/answers/cacheable.ts";
import { routesOf, send, testGateway } from "../testing/test-gateway.ts";
import type { Brand } from "./brand.ts";
import { COLORS } from "./brand-style.ts";
import type { WebPages } from "./web-pages.ts";

const DOCUMENT =
  '<!doctype html><head><meta name="application-name" content="Gatehouse"><title>Gatehouse</title></head>';
const SCRIPT = "console.log(1);";
const javaScript = "text/javascript; charset=utf-8";
const file = cacheable(SCRIPT, javaScript);
const account: WebPages = {
  path: "/account",
  document: DOCUMENT,
  files: new Map([["/account/assets/main-1.js", { identity: file, br: file, gzip: file }]]),
};
/** None is named in the document. */
const pageLanguages = new PageLanguages(builtInLanguages()).all.map((language) => ({
  ...language,
  isInScripts: true,
}));
const gateway = () =>
  testGateway({ webPages: [account], indexLinks: [{ name: "<Mail>", url: "/m?a&b" }] }).app;

test.each(["/account", "/account/", "/account/login", "/account/sessions/deep/er", "/account/login?next=/x"])(
  "%s is the page, under a policy that runs only its own files",
  async (url) => {
    const answer = await send(gateway(), { url });
    expect([answer.statusCode, answer.body]).toEqual([200, DOCUMENT]);
    expect(answer.headers).toMatchObject({
      "cache-control": "no-cache",
      "content-type": "text/html; charset=utf-8",
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
    });
    const policy = String(answer.headers["content-security-policy"]).split("; ");
    expect(policy).toEqual(
      expect.arrayContaining([
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
      ]),
    );
    expect(policy.join()).not.toMatch(/unsafe|http|\*|data:|blob:/);
  },
);

test("a file is kept for ever, the page is asked for again by its ETag", async () => {
  const app = gateway();
  const script = await send(app, { url: "/account/assets/main-1.js" });
  expect([script.statusCode, script.body]).toEqual([200, SCRIPT]);
  expect(script.headers).toMatchObject({
    "cache-control": "public, max-age=31536000, immutable",
    "content-type": javaScript,
  });
  const page = await send(app, { url: "/account" });
  const again = await send(app, {
    url: "/account/x",
    headers: { "if-none-match": String(page.headers.etag) },
  });
  expect([again.statusCode, again.body]).toEqual([304, ""]);
});

test.each([
  ["gzip, deflate, br, zstd", "br", brotliDecompressSync],
  ["gzip;q=1.0, br;q=0", "gzip", gunzipSync],
  ["GZIP", "gzip", gunzipSync],
  ["br;q=0.000, gzip; q=0", undefined, (bytes: Buffer) => bytes],
  ["identity", undefined, (bytes: Buffer) => bytes],
])("who accepts %j gets %s", async (accepted, coding, decode) => {
  const answer = await send(gateway(), { url: "/account", headers: { "accept-encoding": accepted } });
  expect(answer.headers["content-encoding"]).toBe(coding);
  expect(answer.headers.vary).toBe("Accept-Language, Accept-Encoding");
  expect(decode(answer.rawPayload).toString()).toBe(DOCUMENT);
});

test("a coding has a version of its own, so that a cache mixes none", async () => {
  const app = gateway();
  const versions = await Promise.all(
    ["br", "gzip", "identity"].map(
      async (coding) =>
        (await send(app, { url: "/account", headers: { "accept-encoding": coding } })).headers.etag,
    ),
  );
  expect(new Set(versions).size).toBe(3);
});

test.each([
  "/account/assets/main-2.js",
  "/account/assets/main-1.js.br",
  "/account/assets/",
  "/account/assets/..%2f..%2fpackage.json",
  "/account/assets/__proto__",
  "/accounts",
])("%s is not served", async (url) => {
  const answer = await send(gateway(), { url });
  expect(answer.statusCode).toBeGreaterThanOrEqual(400);
  expect(answer.headers["cache-control"] ?? "").not.toContain("immutable");
});

test("at / a browser gets links, and any other client the 404 of an unknown path", async () => {
  const app = gateway();
  const page = await send(app, { url: "/", headers: { accept: "text/html,*/*;q=0.8" } });
  expect(page.statusCode).toBe(200);
  expect(page.headers["content-type"]).toBe("text/html; charset=utf-8");
  const links = [...page.body.matchAll(/href="(\/[^"]*)"/g)].map(([, url]) => url);
  expect(links).toEqual(["/account/login", "/docs", "/openapi.json", "/m?a&amp;b"]);
  expect(page.body).toContain("&lt;Mail&gt;");
  expect(page.body).not.toContain("<Mail>");
  for (const accept of ["*/*", "application/json"]) {
    const answer = await send(app, { url: "/", headers: { accept } });
    expect([answer.statusCode, answer.json().error.code]).toEqual([404, "not_found"]);
  }
});

test.each([
  ["/login", "/account/login"],
  ["/register", "/account/register"],
  ["/.well-known/change-password", "/account/security"],
])("at %s a browser is led to %s of the public origin, unless an upstream has the path", async (url, to) => {
  const upstream = { upstream: "http://127.0.0.1:1", methods: { GET: { auth: "public" } } } as const;
  const publicOrigin = "https://pages.test";
  const gatewayOf = (routes: Parameters<typeof routesOf>[0]) =>
    testGateway({ webPages: [account], publicOrigin, routes: routesOf(routes) }).app;
  const headers = { accept: "text/html" };
  const led = await send(gatewayOf([]), { url: `${url}?next=//evil.example`, headers });
  expect([led.statusCode, led.headers.location]).toEqual([302, publicOrigin + to]);
  expect((await send(gatewayOf([]), { url, method: "POST", headers })).json().error.code).toBe("not_found");
  if (url.startsWith("/.")) {
    // No upstream can have it, and password managers ask as programs do.
    expect((await send(gatewayOf([]), { url })).headers.location).toBe(publicOrigin + to);
    return;
  }
  expect((await send(gatewayOf([{ ...upstream, prefix: url }]), { url, headers })).statusCode).toBe(502);
});

test.each([
  ["de-AT,de;q=0.9,en;q=0.5", "de", "Diese Seite gibt es nicht"],
  ["en-GB,de;q=0.5", "en", "There is no such page"],
  ["xx, fr-CA;q=0.5", "fr", "Cette page n’existe pas"],
  [undefined, "en", "There is no such page"],
])("at an unknown path a browser that wants %j gets a page in %s", async (wanted, language, title) => {
  const headers = { accept: "text/html,*/*;q=0.8", ...(wanted && { "accept-language": wanted }) };
  const { app } = testGateway({ webPages: [account], pageLanguages });
  const page = await send(app, { url: "/nope/<b>?x=<b>", headers });
  expect([page.statusCode, page.headers["content-type"]]).toEqual([404, "text/html; charset=utf-8"]);
  expect(page.headers).toMatchObject({ "cache-control": "no-store", vary: "Accept, Accept-Language" });
  expect(page.body).toContain(`<html lang="${language}" dir="ltr">`);
  expect(page.body).toContain(`<h1>${title}</h1>`);
  expect(page.body).not.toContain("<b>");
  const index = await send(app, { url: "/", headers });
  expect(index.body).toContain(`<html lang="${language}" dir="ltr">`);
  for (const name of ["content-security-policy", "x-content-type-options", "referrer-policy"])
    expect(page.headers[name], name).toBe(index.headers[name]);
});

test.each(["/nope", "/login", "/register"])(
  "at %s a program gets the 404 of an unknown path",
  async (url) => {
    for (const accept of ["*/*", "application/json", undefined]) {
      const answer = await send(gateway(), { url, ...(accept && { headers: { accept } }) });
      expect([answer.statusCode, answer.json().error.code]).toEqual([404, "not_found"]);
    }
  },
);

test("a page that is opened on another host is the one of the public origin; files and other clients stay", async () => {
  const { app } = testGateway({
    webPages: [account],
    publicOrigin: "https://pages.test:8443",
    allowedHosts: new Set(["gateway.test", "pages.test:8443"]),
  });
  const open = (url: string, host = "gateway.test") =>
    send(app, { url, headers: { host, accept: "text/html" } });
  for (const url of ["/", "/account", "/account/login?next=/x", "/account/x?y=//evil.example"]) {
    const { statusCode, headers } = await open(url);
    expect([statusCode, headers.location]).toEqual([302, `https://pages.test:8443${url}`]);
  }
  for (const url of ["/", "/account"]) expect((await open(url, "PAGES.test:8443")).statusCode).toBe(200);
  expect((await open("/account/assets/main-1.js")).statusCode).toBe(200);
  expect((await send(app, { url: "/", headers: { accept: "*/*" } })).statusCode).toBe(404);
});

test("with a host of their own, pages and their files are there only, and the routes everywhere else", async () => {
  const upstream = { upstream: "http://127.0.0.1:1", methods: { GET: { auth: "public" } } };
  const { app } = testGateway({
    webPages: [account],
    publicOrigin: "https://gateway.test",
    pagesOrigin: "https://pages.test",
    allowedHosts: new Set(["gateway.test", "pages.test"]),
    routes: routesOf([{ ...upstream, prefix: "/shop" }]),
  });
  const open = (url: string, host: string) => send(app, { url, headers: { host, accept: "text/html" } });
  for (const url of ["/", "/account", "/account/login?next=/x"]) {
    const { statusCode, headers } = await open(url, "gateway.test");
    expect([statusCode, headers.location]).toEqual([302, `https://pages.test${url}`]);
    expect((await open(url, "pages.test")).statusCode).toBe(200);
  }
  const script = "/account/assets/main-1.js";
  expect((await open(script, "gateway.test")).statusCode).toBe(404);
  expect((await open(script, "pages.test")).statusCode).toBe(200);
  for (const url of ["/shop", "/shop/x", "/v1/shop/x"]) {
    expect((await open(url, "gateway.test")).statusCode).toBe(502);
    for (const host of ["pages.test", "PAGES.test", "pages.test."]) {
      const refused = await open(url, host);
      expect([host, refused.statusCode, refused.json().error.code]).toEqual([
        host,
        421,
        "misdirected_request",
      ]);
    }
  }
  for (const host of ["gateway.test", "pages.test"])
    expect((await open("/auth/me", host)).statusCode).toBe(401);
});

const BRAND: Brand = {
  name: "Müller & Söhne",
  style: "--accent:light-dark(#7a1f5c,#f0a0d0)",
  support: "mailto:help@shop.example",
  privacy: 'https://shop.example/privacy?a="><script>&b=$&',
  terms: "https://shop.example/terms",
  mailbox: "http://127.0.0.1:1080/",
};

test("the operator's name and addresses are data in the documents and at /, under the same policy", async () => {
  const { app } = testGateway({ webPages: [account], pageLanguages, brand: BRAND });
  const page = await send(app, { url: "/account" });
  const [sheet = ""] = /\/account\/assets\/brand-[0-9a-f]{16}\.css/.exec(page.body) ?? [];
  expect(page.body).toBe(
    '<!doctype html><head><meta name="application-name" content="Müller &amp; Söhne"><title>Müller &amp; Söhne</title>' +
      '<link rel="help" href="mailto:help@shop.example">' +
      '<link rel="privacy-policy" href="https://shop.example/privacy?a=&quot;&gt;&lt;script&gt;&amp;b=$&amp;">' +
      '<link rel="terms-of-service" href="https://shop.example/terms">' +
      `<link rel="mailbox" href="http://127.0.0.1:1080/"><link rel="stylesheet" href="${sheet}"></head>`,
  );
  const css = await send(app, { url: sheet });
  expect([css.statusCode, css.body]).toEqual([200, `:root{${BRAND.style}}`]);
  expect(css.headers).toMatchObject({
    "cache-control": "public, max-age=31536000, immutable",
    "content-type": "text/css; charset=utf-8",
  });
  const headers = { accept: "text/html" };
  const index = await send(app, { url: "/", headers });
  expect(index.body).toContain("<h1>Müller &amp; Söhne</h1>");
  expect(index.body).toContain('<a href="https://shop.example/terms">Terms</a>');
  expect(index.body).not.toContain("<script");
  // The style of / is known by its hash, and the rest of the policy is the same.
  const [, style = ""] = /<style>(.*)<\/style>/.exec(index.body) ?? [];
  expect(style).toContain(`:root{${BRAND.style}}`);
  const hash = createHash("sha256").update(style).digest("base64");
  const policy = "content-security-policy";
  expect(index.headers[policy]).toContain(`style-src 'sha256-${hash}';`);
  const plain = await send(gateway(), { url: "/", headers });
  const withoutHash = (text: unknown) => String(text).replace(/sha256-[^']+/, "");
  expect(withoutHash(index.headers[policy])).toBe(withoutHash(plain.headers[policy]));
  expect(page.headers[policy]).toBe((await send(gateway(), { url: "/account" })).headers[policy]);
});

test("the operator's logo is a file of the pages, which can do nothing, and within / and what is missing", async () => {
  const content = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>');
  const logo = { content, mediaType: "image/svg+xml; charset=utf-8" };
  const { app } = testGateway({ webPages: [account], brand: { ...BRAND, logo } });
  const page = await send(app, { url: "/account" });
  const [, address = ""] =
    /<link rel="logo" href="(\/account\/assets\/logo-[0-9a-f]{16})">/.exec(page.body) ?? [];
  const image = await send(app, { url: address });
  expect([image.statusCode, image.body]).toEqual([200, content.toString()]);
  expect(image.headers).toMatchObject({
    "content-type": "image/svg+xml; charset=utf-8",
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "x-content-type-options": "nosniff",
    "cache-control": "public, max-age=31536000, immutable",
  });
  const again = await send(app, { url: address, headers: { "if-none-match": String(image.headers.etag) } });
  expect(again.statusCode).toBe(304);
  const headers = { accept: "text/html" };
  for (const url of ["/account", "/", "/nope", "/docs"]) {
    const [shown, plain] = [
      await send(app, { url, headers }),
      await send(testGateway({ webPages: [account], brand: BRAND }).app, { url, headers }),
    ];
    const policy = "content-security-policy";
    expect(shown.headers[policy], url).toBe(plain.headers[policy]);
    const inline = `<img src="data:image/svg+xml;charset=utf-8;base64,${content.toString("base64")}" alt="">`;
    expect(shown.body.includes(inline), url).toBe(url !== "/account");
    expect(plain.body, url).not.toContain("<img");
  }
});

test.each(["portal", "console"])(
  "a browser's bar has the colour of the operator's pages at %s",
  async (folder) => {
    const document = readFileSync(join(import.meta.dirname, `../../web/${folder}/index.html`), "utf8");
    const colorsOf = async (brand: Brand) => {
      const { app } = testGateway({ webPages: [{ ...account, document }], brand });
      const { body } = await send(app, { url: "/account" });
      return [
        ...body.matchAll(/"theme-color" media="\(prefers-color-scheme: (\w+)\)" content="([^"]*)"/g),
      ].map(([, scheme, color]) => [scheme, color]);
    };
    const pair = ([light, dark]: readonly [string, string]) => [
      ["light", light],
      ["dark", dark],
    ];
    expect(await colorsOf(BRAND)).toEqual(pair(COLORS.paper));
    const paper = ["#fffdf0", "#101010"] as const;
    expect(await colorsOf({ ...BRAND, paper })).toEqual(pair(paper));
  },
);

test("what is said without scripts stands at the top, in the browser's language, and ends with the way to the operator's support", async () => {
  const pages = { ...account, document: '<body><div id="app"></div></body>' };
  const saidTo = async (language: string, brand: Brand) => {
    const { app } = testGateway({ webPages: [pages], brand, pageLanguages });
    const { body } = await send(app, { url: "/account/login", headers: { "accept-language": language } });
    return /<\/header><noscript>(.*)<\/noscript><main/.exec(body)?.[1];
  };
  const german = await saidTo("de-AT", { ...BRAND, support: "https://shop.example/help?a=1&b=$&" });
  expect(german).toContain("<strong>Diese Seite braucht JavaScript</strong>");
  expect(german).toContain('<a href="https://shop.example/help?a=1&amp;b=$&amp;">Hilfe</a></div>');
  const french = await saidTo("fr", { name: "Shop", style: "" });
  expect(french).toContain("<strong>Cette page a besoin de JavaScript</strong>");
  expect(french).not.toContain("<a");
});

test("at / the mailbox has a name in the browser's language, and the operator's links have theirs", async () => {
  const links = { Mailbox: "http://127.0.0.1:1080/", Wallet: "/wallet" };
  const indexLinks = Object.entries(links).map(([name, url]) => ({ name, url }));
  const { app } = testGateway({ webPages: [account], brand: BRAND, pageLanguages, indexLinks });
  const { body } = await send(app, { url: "/", headers: { accept: "text/html", "accept-language": "de" } });
  expect(body).toContain('<a href="http://127.0.0.1:1080/">Postfach<small>');
  expect(body).toContain('<a href="/wallet">Wallet<small>');
});

test("with WEB=off there is no page", async () => {
  const { app } = testGateway();
  const headers = { accept: "text/html" };
  const pages = ["/", "/account", "/account/login", "/account/assets/main-1.js"];
  for (const url of [...pages, "/nope", "/login", "/register", "/.well-known/change-password"]) {
    const answer = await send(app, { url, headers });
    expect([url, answer.statusCode, answer.json().error.code]).toEqual([url, 404, "not_found"]);
  }
});

test("languages are named in the document, and their texts are files of the page alone", async () => {
  const name = '"><script>alert(1)</script>';
  const texts = {
    ui: { skip: "<b>Skip</b>", states: { missing: "<b>Gone" } },
    portal: { title: "Log in" },
    console: { title: "Console" },
    gateway: { lead: "<b>Door", home: "<b>Home" },
  };
  const pageLanguages = [{ tag: "ar-XB", name, dir: "rtl", texts, isInScripts: false }] as const;
  const { app } = testGateway({ webPages: [account], pageLanguages });
  const { body } = await send(app, { url: "/account" });
  const [link = "", url = ""] =
    /<link rel="language" hreflang="ar-XB" dir="rtl" title="[^"]*" href="([^"]+)">/.exec(body) ?? [];
  expect(link).toContain('title="&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"');
  expect(url).toMatch(/^\/account\/assets\/ar-XB-[0-9a-f]{16}\.json$/);
  const answer = await send(app, { url });
  expect(answer.json()).toEqual({ ...texts.ui, title: "Log in" });
  const headers = { accept: "text/html", "accept-language": "ar-XB" };
  for (const [path, text] of [
    ["/", "Door"],
    ["/nope", "Gone"],
    ["/nope", "Home"],
  ] as const) {
    const own = await send(app, { url: path, headers });
    expect(own.body).toContain('<html lang="ar-XB" dir="rtl">');
    expect(own.body).toContain(`&lt;b&gt;${text}`);
    expect(own.body).not.toContain("<b>");
    expect(own.headers.vary).toContain("Accept-Language");
  }
  expect(answer.headers).toMatchObject({
    "content-type": "application/json; charset=utf-8",
    "cache-control": "public, max-age=31536000, immutable",
    "x-content-type-options": "nosniff",
  });
});

test("the first frame has the heading in the best language that the browser takes and the pages have", async () => {
  const login = { login: { title: "Log in <here>" } };
  const of = (tag: string, portal: Texts, isInScripts: boolean) =>
    ({
      tag,
      name: tag,
      dir: "ltr",
      texts: { ui: {}, portal, console: {}, gateway: { scripts: "<b>Scripts" } },
      isInScripts,
    }) as const;
  const pageLanguages = [of("en", login, true), of("fr", { login: { title: "Connexion" } }, false)];
  const document = '<html lang="en"><head><title>Shop</title></head><body><div id="app"></div></body></html>';
  const { app } = testGateway({ webPages: [{ ...account, document }], pageLanguages });
  const seen = async (url: string, language: string) => {
    const { body, headers } = await send(app, { url, headers: { "accept-language": language } });
    expect(headers.vary).toBe("Accept-Language, Accept-Encoding");
    expect(body).toContain('<noscript><div class="alone notice bad"><strong>&lt;b&gt;Scripts</strong>');
    return [/<html lang="([^"]+)"/.exec(body)?.[1], /<h1>(.*)<\/h1>/.exec(body)?.[1], titleOf(body)];
  };
  const titleOf = (body: string) => /<title>(.*)<\/title>/.exec(body)?.[1];
  expect(await seen("/account/login?next=%2Fx", "")).toEqual([
    "en",
    "Log in &lt;here&gt;",
    "Log in &lt;here&gt; – Gatehouse",
  ]);
  expect(await seen("/account/login", "xx, fr-CA;q=0.8, en;q=0.5")).toEqual([
    "fr",
    "Connexion",
    "Connexion – Gatehouse",
  ]);
  expect(await seen("/account/login/more", "fr")).toEqual(["fr", undefined, "Gatehouse"]);
  expect(await seen("/account", "fr")).toEqual(["fr", undefined, "Gatehouse"]);
  expect(await seen("/account/register", "fr")).toEqual(["fr", undefined, "Gatehouse"]);
});
