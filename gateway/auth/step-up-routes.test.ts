import { expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { requestOptions } from "../testing/answering-gateway.ts";
import { SESSION_ID, send, testGateway, USER_ID } from "../testing/test-gateway.ts";

const begun = { stepUpToken: "step-up", methods: ["totp"], expiresInS: 300, passkeyOptionsJson: "" };
const beginStepUp = vi.fn(async () => begun);
const completeStepUp = vi.fn(async () => ({
  accessToken: "new.access.token",
  expiresInS: 900,
  acr: "urn:gatehouse:acr:2",
}));
const call = (url: string, body?: object, token: string | undefined = "user-token") =>
  send(testGateway({ identity: { beginStepUp, completeStepUp } }).app, {
    method: "POST",
    url,
    ...(body !== undefined && { body }),
    ...(token !== undefined && { token }),
  });
const asked = (mock: { mock: { lastCall?: unknown[] | undefined } }) => mock.mock.lastCall?.[0];

test.each([
  [undefined, ""],
  [{}, ""],
  [{ acr: 2 }, "urn:gatehouse:acr:2"],
  [{ acr: 3 }, "urn:gatehouse:acr:3"],
])("a step-up begins with the body %j in the token's session", async (body, wantedAcr) => {
  const answer = await call("/auth/step-up", body);
  expect(answer.statusCode).toBe(200);
  expect(answer.headers["cache-control"]).toBe("no-store");
  expect(answer.json().data).toEqual({ stepUpToken: "step-up", methods: ["totp"], expiresIn: 300 });
  const session = { userId: USER_ID, sessionId: SESSION_ID, currentAcr: "urn:gatehouse:acr:1" };
  expect(asked(beginStepUp)).toEqual({ ...session, wantedAcr });
});

test("a user with a passkey gets the options for it", async () => {
  const passkeyOptionsJson = JSON.stringify(requestOptions);
  beginStepUp.mockResolvedValueOnce({ ...begun, methods: ["passkey"], passkeyOptionsJson });
  const answer = await call("/auth/step-up", { acr: 3 });
  expect(answer.json().data).toEqual({
    stepUpToken: "step-up",
    methods: ["passkey"],
    expiresIn: 300,
    passkey: requestOptions,
  });
});

const signed = { clientDataJSON: "e30", authenticatorData: "AAAA", signature: "MEUC" };
const answered = { id: "cGFzc2tleQ", type: "public-key", response: signed };
const assertion = {
  credentialId: "cGFzc2tleQ",
  clientDataJson: "e30",
  authenticatorData: "AAAA",
  signature: "MEUC",
  userHandle: "",
};

test.each([
  [{ passkey: answered }, { $case: "passkey", value: assertion }],
  [{ code: "492039" }, { $case: "code", value: "492039" }],
  [{ password: "secret" }, { $case: "password", value: "secret" }],
])("the proof %j gives a new access token and no refresh token", async (given, proof) => {
  const answer = await call("/auth/step-up/verify", { stepUpToken: "step-up", ...given });
  expect(answer.statusCode).toBe(200);
  expect(answer.json().data).toEqual({
    accessToken: "new.access.token",
    tokenType: "Bearer",
    expiresIn: 900,
    acr: 2,
  });
  const session = { userId: USER_ID, sessionId: SESSION_ID, stepUpToken: "step-up" };
  expect(asked(completeStepUp)).toMatchObject({ ...session, proof });
});

test.each([
  ["/auth/step-up", { acr: 1 }],
  ["/auth/step-up", { acr: "2" }],
  ["/auth/step-up", { level: 2 }],
  ["/auth/step-up/verify", { stepUpToken: "x" }],
  ["/auth/step-up/verify", { code: "492039" }],
  ["/auth/step-up/verify", { stepUpToken: "x", code: "12345" }],
  ["/auth/step-up/verify", { stepUpToken: "x", code: "492039", password: "secret" }],
  ["/auth/step-up/verify", { stepUpToken: "x", code: "492039", passkey: answered }],
  ["/auth/step-up/verify", { stepUpToken: "x", passkey: { id: "cGFzc2tleQ", type: "public-key" } }],
])("%s does not take %j", async (url, body) => {
  const answer = await call(url, body);
  expect([answer.statusCode, answer.json().error.code]).toEqual([400, "validation_failed"]);
});

test.each(["/auth/step-up", "/auth/step-up/verify"])("%s needs an access token", async (url) => {
  const { app } = testGateway({ identity: { beginStepUp, completeStepUp } });
  const answer = await send(app, { method: "POST", url, body: {} });
  expect([answer.statusCode, answer.json().error.code]).toEqual([401, "token_missing"]);
});

test.each([
  ["mfa_enrollment_required", 403],
  ["step_up_token_invalid", 401],
  ["mfa_code_invalid", 401],
  ["invalid_credentials", 401],
  ["passkey_invalid", 401],
  ["too_many_requests", 429],
] as const)("the refusal %s is answered with %i", async (code, status) => {
  completeStepUp.mockRejectedValueOnce(new DomainError(code));
  const answer = await call("/auth/step-up/verify", { stepUpToken: "x", code: "492039" });
  expect([answer.statusCode, answer.json().error.code]).toEqual([status, code]);
});
