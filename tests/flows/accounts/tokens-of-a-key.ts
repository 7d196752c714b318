import { beforeAll, expect, test } from "vitest";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { dpopClient } from "../../support/people/dpop-client.ts";
import { oneSystem } from "../../support/system/one-system.ts";

let url: string;
let api: ApiClient;

beforeAll(() => {
  ({ url } = oneSystem());
  api = apiClient(url);
});

interface Answer {
  data: { accessToken: string; refreshToken: string; stepUpToken: string };
  error: { code: string };
}

/** A client with a key, which repeats a call with the nonce that it is sent. */
async function keyHolder() {
  const { proof } = await dpopClient();
  let nonce: string | undefined;
  const once = async (method: string, path: string, token?: string, body?: object) => {
    const headers = {
      dpop: await proof({
        method,
        url: `${url}${path}`,
        ...(token !== undefined && { token }),
        ...(nonce !== undefined && { nonce }),
      }),
      ...(token !== undefined && { authorization: `DPoP ${token}` }),
      ...(body !== undefined && { "content-type": "application/json" }),
    };
    const payload = body === undefined ? {} : { body: JSON.stringify(body) };
    const answer = await fetch(`${url}${path}`, { method, headers, ...payload });
    nonce = answer.headers.get("dpop-nonce") ?? nonce;
    const parsed = (await answer.json()) as Answer;
    return { status: answer.status, body: parsed, wantsNonce: answer.headers.has("dpop-nonce") };
  };
  return async (...call: Parameters<typeof once>) => {
    const answer = await once(...call);
    return answer.status >= 400 && answer.wantsNonce ? once(...call) : answer;
  };
}

test("a user's session of a key: its tokens are of no use without the key, and a stolen refresh token ends nothing", async () => {
  const { email, password } = await api.newUser();
  const [holder, thief] = [await keyHolder(), await keyHolder()];
  const login = await holder("POST", "/auth/login", undefined, { email, password });
  expect(login).toMatchObject({ status: 200, body: { data: { tokenType: "DPoP" } } });
  const { accessToken, refreshToken } = login.body.data;

  for (const path of ["/auth/me", "/payments"]) {
    expect((await holder("GET", path, accessToken)).status, path).toBe(200);
    expect((await thief("GET", path, accessToken)).body.error.code).toBe("token_proof_invalid");
    expect((await api.get(path, { token: accessToken })).body.error.code).toBe("token_proof_missing");
  }

  const refused = { status: 401, body: { error: { code: "refresh_token_invalid" } } };
  expect(await api.post("/auth/refresh", { refreshToken })).toMatchObject(refused);
  expect(await thief("POST", "/auth/refresh", undefined, { refreshToken })).toMatchObject(refused);
  expect(await api.post("/auth/logout", { refreshToken })).toMatchObject(refused);
  const next = await holder("POST", "/auth/refresh", undefined, { refreshToken });
  expect(next).toMatchObject({ status: 200, body: { data: { tokenType: "DPoP" } } });
  const { accessToken: newer, refreshToken: newest } = next.body.data;
  expect((await holder("GET", "/auth/me", newer)).status).toBe(200);

  // The old refresh token does not count as used again either.
  expect(await thief("POST", "/auth/refresh", undefined, { refreshToken })).toMatchObject(refused);
  expect((await holder("GET", "/auth/me", newer)).status).toBe(200);
  expect((await holder("POST", "/auth/logout", undefined, { refreshToken: newest })).status).toBe(200);
  expect((await holder("GET", "/auth/me", newer)).status).toBe(401);
});

test("a step-up keeps the key", async () => {
  const { email, password } = await api.newUser();
  const holder = await keyHolder();
  const login = await holder("POST", "/auth/login", undefined, { email, password });
  const { accessToken } = login.body.data;
  const begun = await holder("POST", "/auth/step-up", accessToken, {});
  const { stepUpToken } = begun.body.data;
  const raised = await holder("POST", "/auth/step-up/verify", accessToken, { stepUpToken, password });
  expect(raised).toMatchObject({ status: 200, body: { data: { tokenType: "DPoP" } } });
  const { accessToken: fresh } = raised.body.data;
  expect((await holder("GET", "/auth/me", fresh)).status).toBe(200);
  expect((await api.get("/auth/me", { token: fresh })).status).toBe(401);
});
