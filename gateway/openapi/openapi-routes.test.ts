import { createHash } from "node:crypto";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { escapeHtml } from "#kit/values/escape-html.ts";
import { send, testGateway } from "../testing/test-gateway.ts";
import type { OpenApiDocument } from "./openapi-document.ts";

const { app } = testGateway();

test.each([
  ["/openapi.json", "application/json; charset=utf-8"],
  ["/docs", "text/html; charset=utf-8"],
])("%s may be kept, and is asked for again by its ETag", async (url, contentType) => {
  const first = await send(app, { url });
  const etag = String(first.headers.etag);
  expect(first.statusCode).toBe(200);
  expect(first.headers).toMatchObject({
    "content-type": contentType,
    "cache-control": "public, max-age=300",
  });
  expect(etag).toMatch(/^"[\w-]{43}"$/);
  for (const header of [etag, `W/${etag}`, `"other", ${etag}`, "*"]) {
    const again = await send(app, { url, headers: { "if-none-match": header } });
    expect([again.statusCode, again.body, again.headers.etag]).toEqual([304, "", etag]);
  }
  expect((await send(app, { url, headers: { "if-none-match": '"other"' } })).statusCode).toBe(200);
});

test.each(["/openapi.json", "/docs"])("%s is sent compressed, each form with its own ETag", async (url) => {
  const plain = await send(app, { url });
  const forms = { br: brotliDecompressSync, gzip: gunzipSync };
  const etags = new Set([plain.headers.etag]);
  for (const [coding, decompress] of Object.entries(forms)) {
    const answer = await send(app, { url, headers: { "accept-encoding": coding } });
    expect(answer.headers).toMatchObject({ "content-encoding": coding, vary: "Accept-Encoding" });
    expect(decompress(answer.rawPayload).toString()).toBe(plain.body);
    expect(answer.rawPayload.length).toBeLessThan(60_000);
    etags.add(answer.headers.etag);
  }
  expect(etags.size).toBe(3);
});

test("the page is one file without scripts: its style is known by its hash, and nothing is loaded", async () => {
  const page = await send(app, { url: "/docs" });
  const [, style = ""] = /<style>([^<]+)<\/style>/.exec(page.body) ?? [];
  const hash = createHash("sha256").update(style).digest("base64");
  expect(page.headers["content-security-policy"]).toBe(
    `default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  expect(page.body).not.toMatch(/<script|style=|\son\w+=|<(?:img|iframe|object|form)/);
  const links = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link = ""]) => link);
  expect(new Set(links.filter((link) => !link.startsWith("#")))).toEqual(
    new Set(["data:,", "/", "/openapi.json"]),
  );
});

test("every call, error and shape of the document is on the page, folded, and every link leads to one place", async () => {
  const { paths, components } = (await send(app, { url: "/openapi.json" })).json() as OpenApiDocument;
  const { body } = await send(app, { url: "/docs" });
  const ids = [...body.matchAll(/ id="([^"]+)"/g)].map(([, id = ""]) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const links = [...body.matchAll(/href="#([^"]+)"/g)].map(([, id]) => id);
  expect(links.filter((id = "") => !ids.includes(id))).toEqual([]);
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, { operationId, summary }] of Object.entries(operations)) {
      const [, line = ""] =
        new RegExp(`<details><summary>([^\n]*?)</summary><div id="${operationId}">`).exec(body) ?? [];
      const text = line.slice(line.lastIndexOf("<summary>") + 1).replaceAll(/<[^>]+>/g, "");
      const expected = `${method.toUpperCase()} ${path} ${escapeHtml(String(summary)).replaceAll("`", "")}`;
      expect(text.endsWith(expected), expected).toBe(true);
    }
  }
  for (const code of components.schemas.ErrorCode?.enum ?? []) expect(ids).toContain(`error-${code}`);
  for (const name of Object.keys(components.schemas).filter((each) => each !== "ErrorCode"))
    expect(ids).toContain(`schema-${name}`);
  expect(body).not.toMatch(/undefined|\[object|NaN/);
});

test("the page shows what a call takes, gives and refuses, and how to make it", async () => {
  const { body } = await send(app, { url: "/docs" });
  const callOf = (id: string) => body.split(`<div id="${id}">`)[1]?.split("</details>")[0] ?? "";
  const textOf = (id: string) =>
    callOf(id)
      .replaceAll(/<[^>]+>/g, " ")
      .replaceAll(/\s+/g, " ");
  expect(textOf("logIn")).toContain("For everybody. In the audit log as auth.login .");
  expect(textOf("logIn")).toContain("password string (password), 1 to 1024 characters");
  expect(textOf("logIn")).toContain("data CompletedLogin or MfaRequired or PasswordChangeRequired");
  expect(callOf("logIn")).toContain('<b>401</b> <a href="#error-invalid_credentials">');
  expect(callOf("logIn")).toContain(
    `curl -X POST &quot;$URL/auth/login&quot; \\\n  -H &#39;content-type: application/json&#39; \\\n  -d &#39;{&quot;email&quot;:&quot;ada@example.com&quot;`,
  );
  expect(textOf("unlockUser")).toMatch(/Needs an access token with [a-z:]+ \./);
  expect(callOf("issueClientToken")).toContain("-u &quot;$CLIENT:$SECRET&quot;");
});

test("the operator's name and colours are on the page, as text", async () => {
  const brand = { name: "Müller <b> & Söhne", style: "--accent:light-dark(#7a1f5c,#f0a0d0)" };
  const { body } = await send(testGateway({ brand }).app, { url: "/docs" });
  expect(body).toContain("<h1>Müller &lt;b&gt; &amp; Söhne API</h1>");
  expect(body).toContain(`:root{${brand.style}}`);
});

test.each(["/docs/", "/docs/index.html", "/docs/package.json", "/docs/..%2fpackage.json"])(
  "%s is not served",
  async (url) => {
    expect((await send(app, { url })).statusCode).toBeGreaterThanOrEqual(400);
  },
);
