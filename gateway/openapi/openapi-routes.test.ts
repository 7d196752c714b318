import { expect, test } from "vitest";
import { send, testGateway } from "../testing/test-gateway.ts";

const { app } = testGateway();

test.each([
  ["/openapi.json", "application/json; charset=utf-8"],
  ["/docs", "text/html; charset=utf-8"],
  ["/docs/start.js", "text/javascript; charset=utf-8"],
  ["/docs/swagger-ui.css", "text/css; charset=utf-8"],
  ["/docs/swagger-ui-bundle.js", "text/javascript; charset=utf-8"],
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

test("the page loads its own files only, and nothing that is written into it", async () => {
  const page = await send(app, { url: "/docs" });
  const policy = String(page.headers["content-security-policy"]);
  expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self'; /);
  expect(policy).not.toMatch(/unsafe|http|\*/);
  expect(page.body).not.toMatch(/<style|<script(?! src)|style=|\son\w+=|\/\//);
  const files = [...page.body.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, file = ""]) => file);
  expect(files).toHaveLength(5);
  for (const file of files.filter((name) => !name.startsWith("data:"))) {
    expect((await send(app, { url: `/${file}` })).statusCode, file).toBe(200);
  }
});

test.each([
  "/docs/",
  "/docs/index.html",
  "/docs/swagger-ui.css.map",
  "/docs/package.json",
  "/docs/..%2fpackage.json",
])("%s is not served", async (url) => {
  expect((await send(app, { url })).statusCode).toBeGreaterThanOrEqual(400);
});
