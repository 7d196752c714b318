import { beforeEach, describe, expect, test, vi } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import type { Verification } from "#token-client/principal.ts";
import { creationOptions, passkey, requestOptions } from "../testing/answering-gateway.ts";
import {
  completedLogin,
  principalWith,
  SESSION_ID,
  send,
  testGateway,
  USER_ID,
  verifierOfUsers,
} from "../testing/test-gateway.ts";

const optionsJson = JSON.stringify(creationOptions);
const identity = {
  beginPasskeyRegistration: vi.fn(async () => ({ optionsJson })),
  beginPasskeyRegistrationAtLogin: vi.fn(async () => ({ optionsJson, userId: USER_ID })),
  registerPasskey: vi.fn(async () => ({
    passkey,
    recoveryCodes: ["ABCD-EFGH-IJKL-MNOP"],
    endedSessionIds: ["019a0000-0000-7000-8000-00000000000b"],
  })),
  completePasskeyRegistrationAtLogin: vi.fn(async () => ({
    result: completedLogin("device"),
    recoveryCodes: ["ABCD-EFGH-IJKL-MNOP"],
    passkey,
  })),
  listPasskeys: vi.fn(async () => ({ passkeys: [passkey] })),
  renamePasskey: vi.fn(async () => ({ passkey: { ...passkey, name: "Laptop" } })),
  deletePasskey: vi.fn(async () => ({ endedSessionIds: ["019a0000-0000-7000-8000-00000000000b"] })),
  beginPasskeyLogin: vi.fn(async () => ({
    challengeToken: "challenge",
    optionsJson: JSON.stringify(requestOptions),
  })),
  completePasskeyLogin: vi.fn(async () => ({ result: completedLogin("device") })),
};
beforeEach(() => vi.clearAllMocks());

const refuseSession = vi.fn();
const STALE: Verification = {
  kind: "active",
  principal: { ...principalWith("USER"), authTime: new Date(Date.now() - 301_000) },
};
const PROVEN_AT = new Date();
function gateway() {
  const verdicts = new Map<string, Verification>([
    ["stale-token", STALE],
    ["user-token", { kind: "active", principal: { ...principalWith("USER"), authTime: PROVEN_AT } }],
  ]);
  return testGateway({ identity, verifier: { ...verifierOfUsers(verdicts), refuseSession } });
}
const TEMP_TOKEN = "t".repeat(43);
const attestation = { clientDataJSON: "e30", attestationObject: "o2Nm", transports: ["internal"] };
const created = { id: "cGFzc2tleQ", type: "public-key", response: attestation };
const assertion = { clientDataJSON: "e30", authenticatorData: "AAAA", signature: "MEUC", userHandle: null };
const signed = { id: "cGFzc2tleQ", type: "public-key", response: assertion };
const ID = "0199a000-0000-7000-8000-00000000000a";

type Method = "GET" | "POST" | "PATCH" | "DELETE";
const call = (method: Method, url: string, body?: object, token: string | undefined = "user-token") =>
  send(gateway().app, {
    method,
    url,
    ...(body !== undefined && { body }),
    ...(token !== "" && { token }),
  });
const codeOf = ({ statusCode, json }: Awaited<ReturnType<typeof call>>) => [statusCode, json().error.code];
const asked = (mock: { mock: { lastCall?: unknown[] | undefined } }) => mock.mock.lastCall?.[0];
const answered = { ...passkey, createdAt: passkey.createdAt?.toISOString(), lastUsedAt: null };

describe("registration", () => {
  test("begins in the token's session, with the time of its proof", async () => {
    const answer = await call("POST", "/auth/passkeys/options");
    expect([answer.statusCode, answer.json().data]).toEqual([200, creationOptions]);
    const owner = { userId: USER_ID, sessionId: SESSION_ID, authTime: PROVEN_AT };
    expect(asked(identity.beginPasskeyRegistration)).toMatchObject({ owner });
  });

  test("gives recovery codes once, and the ended sessions are refused at once", async () => {
    const body = { response: created, name: "My phone" };
    const answer = await call("POST", "/auth/passkeys", body);
    expect([answer.statusCode, answer.json().data]).toEqual([
      201,
      { passkey: answered, recoveryCodes: ["ABCD-EFGH-IJKL-MNOP"] },
    ]);
    expect(asked(identity.registerPasskey)).toMatchObject({
      name: "My phone",
      attestation: {
        credentialId: "cGFzc2tleQ",
        clientDataJson: "e30",
        attestationObject: "o2Nm",
        transports: ["internal"],
      },
    });
    expect(refuseSession.mock.calls).toEqual([["019a0000-0000-7000-8000-00000000000b"]]);
    identity.registerPasskey.mockResolvedValueOnce({ passkey, recoveryCodes: [], endedSessionIds: [] });
    expect((await call("POST", "/auth/passkeys", body)).json().data).toEqual({ passkey: answered });
  });

  test("of a login: the tempToken in place of an access token, and the session at the end", async () => {
    const begun = await call("POST", "/auth/passkeys/options", { tempToken: TEMP_TOKEN }, "");
    expect([begun.statusCode, begun.json().data]).toEqual([200, creationOptions]);
    expect(asked(identity.beginPasskeyRegistrationAtLogin)).toEqual({ tempToken: TEMP_TOKEN });
    const body = { tempToken: TEMP_TOKEN, response: created, name: "My phone" };
    const done = await call("POST", "/auth/passkeys", body, "");
    expect(done.statusCode).toBe(201);
    expect(done.json().data).toMatchObject({
      passkey: answered,
      tokenType: "Bearer",
      accessToken: expect.any(String),
      recoveryCodes: ["ABCD-EFGH-IJKL-MNOP"],
    });
    expect(asked(identity.completePasskeyRegistrationAtLogin)).toMatchObject({ tempToken: TEMP_TOKEN });
    expect(identity.registerPasskey).not.toHaveBeenCalled();
  });

  test("a login that is not complete after it is a defect, and logs nobody in", async () => {
    identity.completePasskeyRegistrationAtLogin.mockResolvedValueOnce({
      result: {},
      recoveryCodes: [],
      passkey,
    } as never);
    const body = { tempToken: TEMP_TOKEN, response: created, name: "My phone" };
    expect(codeOf(await call("POST", "/auth/passkeys", body, ""))).toEqual([500, "internal_error"]);
  });

  test.each([
    ["/auth/passkeys/options", {}],
    ["/auth/passkeys", { response: created, name: "My phone" }],
  ])("%s without any token is refused", async (url, body) => {
    expect(codeOf(await call("POST", url, body, ""))).toEqual([401, "token_missing"]);
  });

  test.each([
    { response: created },
    { response: created, name: "" },
    { response: { ...created, type: "password" }, name: "x" },
    { response: { ...created, id: "not base64url!" }, name: "x" },
    { response: created, name: "x", userId: USER_ID },
  ])("does not take %j", async (body) => {
    expect(codeOf(await call("POST", "/auth/passkeys", body))).toEqual([400, "validation_failed"]);
    expect(identity.registerPasskey).not.toHaveBeenCalled();
  });
});

test.each([
  ["POST", "/auth/passkeys/options"],
  ["DELETE", `/auth/passkeys/${USER_ID}`],
] as const)("%s %s needs a fresh session, and says which", async (method, url) => {
  const answer = await call(method, url, undefined, "stale-token");
  expect(codeOf(answer)).toEqual([401, "step_up_required"]);
  expect(answer.json().error.details).toEqual({
    acr: 1,
    maxAgeSeconds: 300,
    methods: ["passkey", "totp", "recovery_code", "password"],
  });
  expect(identity.beginPasskeyRegistration).not.toHaveBeenCalled();
  expect(identity.deletePasskey).not.toHaveBeenCalled();
});

test.each([
  ["PATCH", "renamePasskey", { name: "Laptop" }],
  ["DELETE", "deletePasskey", undefined],
] as const)(
  "%s finds a passkey whatever the case of its id, as other routes do",
  async (method, rpc, body) => {
    expect((await call(method, `/auth/passkeys/${ID.toUpperCase()}`, body)).statusCode).toBe(200);
    expect(asked(identity[rpc])).toMatchObject({ passkeyId: ID });
  },
);

describe("the list", () => {
  test("has the user's own passkeys, and each can be renamed by its owner", async () => {
    expect((await call("GET", "/auth/passkeys")).json().data).toEqual({ passkeys: [answered] });
    expect(asked(identity.listPasskeys)).toEqual({ userId: USER_ID });
    const renamed = await call("PATCH", `/auth/passkeys/${USER_ID}`, { name: "Laptop" });
    expect(renamed.json().data.passkey.name).toBe("Laptop");
    expect(asked(identity.renamePasskey)).toEqual({ userId: USER_ID, passkeyId: USER_ID, name: "Laptop" });
  });

  test("a removal refuses the ended sessions at once", async () => {
    expect((await call("DELETE", `/auth/passkeys/${USER_ID}`)).statusCode).toBe(200);
    expect(asked(identity.deletePasskey)).toMatchObject({ passkeyId: USER_ID, owner: { userId: USER_ID } });
    expect(refuseSession.mock.calls).toEqual([["019a0000-0000-7000-8000-00000000000b"]]);
  });

  test.each([
    ["not_found", 404],
    ["last_factor", 409],
    ["mfa_required", 409],
    ["step_up_required", 401],
  ] as const)("the refusal %s of a removal is answered with %i", async (code, status) => {
    identity.deletePasskey.mockRejectedValueOnce(new DomainError(code));
    expect(codeOf(await call("DELETE", `/auth/passkeys/${USER_ID}`))).toEqual([status, code]);
  });
});

describe("a login", () => {
  test("begins without naming anybody and ends with a session", async () => {
    const begun = await call("POST", "/auth/passkeys/login/options", {}, "");
    expect(begun.json().data).toEqual({ challengeToken: "challenge", options: requestOptions });
    const done = await call("POST", "/auth/passkeys/login", { challengeToken: "x", response: signed }, "");
    expect([done.statusCode, done.json().data.tokenType]).toEqual([200, "Bearer"]);
    expect(asked(identity.completePasskeyLogin)).toMatchObject({
      challengeToken: "x",
      assertion: {
        credentialId: "cGFzc2tleQ",
        clientDataJson: "e30",
        authenticatorData: "AAAA",
        signature: "MEUC",
        userHandle: "",
      },
    });
  });

  test("a refusal says nothing more, and options that are none are a defect", async () => {
    identity.completePasskeyLogin.mockRejectedValueOnce(new DomainError("passkey_invalid"));
    const refused = await call("POST", "/auth/passkeys/login", { challengeToken: "x", response: signed }, "");
    expect(codeOf(refused)).toEqual([401, "passkey_invalid"]);
    expect(refused.json().error.details).toBeUndefined();
    identity.beginPasskeyLogin.mockResolvedValueOnce({ challengeToken: "x", optionsJson: "{}" });
    const broken = await call("POST", "/auth/passkeys/login/options", {}, "");
    expect(codeOf(broken)).toEqual([500, "internal_error"]);
  });
});
