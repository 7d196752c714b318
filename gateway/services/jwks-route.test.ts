import { expect, test } from "vitest";
import { send, testGateway } from "../testing/test-gateway.ts";

test("the public keys are for everyone, and for as long as they are good", async () => {
  const { app } = testGateway({ jwks: { get: async () => ({ json: '{"keys":[]}', maxAgeS: 250 }) } });
  for (const url of ["/.well-known/jwks.json", "/v1/.well-known/jwks.json"]) {
    const response = await send(app, { url });
    expect(response.statusCode).toBe(200);
    expect(response.json()).toEqual({ keys: [] });
    expect(response.headers["cache-control"]).toBe("public, max-age=250");
    expect(response.headers["content-type"]).toBe("application/jwk-set+json; charset=utf-8");
  }
});

test("a reader that has the key set is answered so, until the set changes", async () => {
  let json = '{"keys":[]}';
  const { app } = testGateway({ jwks: { get: async () => ({ json, maxAgeS: 250 }) } });
  const url = "/.well-known/jwks.json";
  const etag = String((await send(app, { url })).headers.etag);
  expect(etag).toMatch(/^"[\w-]{43}"$/);

  const again = await send(app, { url, headers: { "if-none-match": `W/"x", ${etag}` } });
  expect(again.statusCode).toBe(304);
  expect(again.body).toBe("");
  expect(again.headers).toMatchObject({ etag, "cache-control": "public, max-age=250" });

  json = '{"keys":[{}]}';
  const changed = await send(app, { url, headers: { "if-none-match": etag } });
  expect(changed.statusCode).toBe(200);
  expect(changed.body).toBe(json);
  expect(changed.headers.etag).not.toBe(etag);
});
