import { expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { send, testGateway } from "../testing/test-gateway.ts";
import { createJwksCache } from "./jwks-cache.ts";

const context = newCallContext();
const json = '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"x","kid":"k1","alg":"EdDSA","use":"sig"}]}';

/** A cache whose clock and source a test moves. */
function cache(source: () => Promise<string>) {
  const state = { nowMs: 0, calls: 0 };
  const { get, ...rest } = createJwksCache(
    async () => {
      state.calls += 1;
      return { json: await source(), maxAgeS: 300 };
    },
    () => state.nowMs,
  );
  return { state, get: () => get(context), ...rest };
}

test("the set is asked for once for its maximum age, however many want it", async () => {
  const { state, get } = cache(async () => json);
  await Promise.all([get(), get(), get()]);
  state.nowMs = 299_000;
  expect(await get()).toEqual({ json, maxAgeS: 1 });
  expect(state.calls).toBe(1);
  state.nowMs = 300_000;
  expect(await get()).toEqual({ json, maxAgeS: 300 });
  expect(state.calls).toBe(2);
});

test("the last good set is served after a failure, for at most ten minutes", async () => {
  let isDown = false;
  const { state, get } = cache(async () => {
    if (isDown) throw new Error("away");
    return json;
  });
  await get();
  isDown = true;
  state.nowMs = 599_999;
  expect(await get()).toEqual({ json, maxAgeS: 0 });
  expect(await get()).toEqual({ json, maxAgeS: 0 });
  expect(state.calls).toBe(2);
  state.nowMs = 601_000;
  await expect(get()).rejects.toMatchObject({ code: "service_unavailable" });
  isDown = false;
  expect(await get()).toEqual({ json, maxAgeS: 300 });
});

test.each([
  '{"keys":[{"kty":"OKP","kid":"k1","d":"secret"}]}',
  '{"keys":[{"kty":"oct","kid":"k1","k":"secret"}]}',
  '{"keys":[]}',
  "<html>",
])("what is not a set of public keys is never passed on: %s", async (bad) => {
  const { get } = cache(async () => bad);
  await expect(get()).rejects.toMatchObject({ code: "service_unavailable" });
});

const setOf = (...kids: string[]) =>
  JSON.stringify({ keys: kids.map((kid) => ({ kty: "OKP", crv: "Ed25519", x: "x", kid })) });
const kidsIn = ({ json }: { json: string }) =>
  (JSON.parse(json) as { keys: { kid: string }[] }).keys.map(({ kid }) => kid);

test("a banned key is served no more: not from memory, not while token-service is away, not from an older replica", async () => {
  let isDown = false;
  let kids = ["banned", "good"];
  const { state, get, refuseKey } = cache(async () => {
    if (isDown) throw new Error("away");
    return setOf(...kids);
  });
  expect(kidsIn(await get())).toEqual(["banned", "good"]);
  isDown = true;
  refuseKey("banned");
  expect(await get()).toEqual({ json: setOf("good"), maxAgeS: 0 });
  isDown = false;
  state.nowMs += 1_000;
  // The replica that was asked has not heard of the ban: its set is kept for a second.
  expect(await get()).toEqual({ json: setOf("good"), maxAgeS: 1 });
  kids = ["good", "new"];
  state.nowMs += 1_000;
  expect(await get()).toEqual({ json: setOf("good", "new"), maxAgeS: 60 });
});

test("after a ban readers are asked to keep the set for a minute at most, until the ban is ten minutes old", async () => {
  const { state, get, refuseKey } = cache(async () => setOf("good"));
  refuseKey("banned");
  expect((await get()).maxAgeS).toBe(60);
  const { calls } = state;
  state.nowMs = 290_000;
  // What is left of its age is still counted.
  expect((await get()).maxAgeS).toBe(10);
  expect(state.calls).toBe(calls);
  state.nowMs = 600_001;
  expect((await get()).maxAgeS).toBe(300);
});

test("a ban while the set is on its way holds for it, and a set of banned keys alone is none", async () => {
  const { promise, resolve } = Promise.withResolvers<string>();
  const { get, refuseKey } = cache(() => promise);
  const asked = get();
  refuseKey("banned");
  resolve(setOf("banned"));
  await expect(asked).rejects.toMatchObject({ code: "service_unavailable" });
});

test("a key of the watch that is missing in the set is fetched at once", async () => {
  let kids = ["old"];
  const { state, get, expectKeys } = cache(async () => setOf(...kids));
  await get();
  expectKeys(new Set(["old"]));
  await get();
  expect(state.calls).toBe(1);
  expectKeys(new Set(["old", "new"]));
  expect(await get()).toEqual({ json: setOf("old"), maxAgeS: 1 });
  kids = ["old", "new"];
  state.nowMs += 1_000;
  expect(await get()).toEqual({ json: setOf("old", "new"), maxAgeS: 300 });
  expect(state.calls).toBe(3);
});

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
