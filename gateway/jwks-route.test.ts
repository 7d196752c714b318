import { expect, test } from "vitest";
import { send, testGateway } from "./gateway.fixture.ts";

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
