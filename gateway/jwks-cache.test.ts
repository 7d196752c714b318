import { expect, test } from "vitest";
import { newCallContext } from "../service-kit/call-context.ts";
import { createJwksCache } from "./jwks-cache.ts";

const context = newCallContext();
const json = '{"keys":[{"kty":"OKP","crv":"Ed25519","x":"x","kid":"k1","alg":"EdDSA","use":"sig"}]}';

/** A cache whose clock and source a test moves. */
function cache(source: () => Promise<string>) {
  const state = { nowMs: 0, calls: 0 };
  const { get } = createJwksCache(
    async () => {
      state.calls += 1;
      return { json: await source(), maxAgeS: 300 };
    },
    () => state.nowMs,
  );
  return { state, get: () => get(context) };
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

test("the last good set outlives a failure, for ten minutes at most", async () => {
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
