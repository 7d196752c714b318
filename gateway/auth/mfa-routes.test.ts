import { expect, test } from "vitest";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Verification } from "#token-client/principal.ts";
import type { Backends } from "../backends/backends.ts";
import {
  ada,
  adaJson,
  completedLogin,
  principalWith,
  SESSION_ID,
  send,
  testGateway,
  tokens,
  USER_ID,
} from "../testing/test-gateway.ts";

const TEMP_TOKEN = "t".repeat(43);
const CODE = "123456";
const RECOVERY_CODES = ["ABCD-EFGH-IJKL-MNOP"];

const METHODS = [
  "beginTotpEnrollmentAtLogin",
  "completeTotpEnrollmentAtLogin",
  "completeMfaLogin",
  "beginTotpEnrollment",
  "confirmTotpEnrollment",
  "disableTotp",
  "regenerateRecoveryCodes",
] as const;

/** A gateway whose identity-service notes what it is asked for. */
function withMfa(answers: Partial<Record<(typeof METHODS)[number], unknown>>) {
  const asked: unknown[] = [];
  const answer = (name: (typeof METHODS)[number]) => async (request: unknown, _context: CallContext) => {
    asked.push(request);
    if (!(name in answers)) throw new Error("not part of this test");
    if (answers[name] instanceof Error) throw answers[name];
    return answers[name] as never;
  };
  const identity: Partial<Backends["identity"]> = Object.fromEntries(
    METHODS.map((name) => [name, answer(name)]),
  );
  return { ...testGateway({ identity }), asked };
}

test("a right password of a user with a second factor gives a tempToken and no tokens", async () => {
  const pending = { tempToken: TEMP_TOKEN, methods: ["totp", "recovery_code"], userId: USER_ID };
  const { app, entries } = testGateway({
    identity: { login: async () => ({ result: { $case: "mfaChallenge", value: pending } }) },
  });
  const body = { email: ada.email, password: "correct horse" };
  const response = await send(app, { method: "POST", url: "/auth/login", body });
  expect(response.statusCode).toBe(200);
  expect(response.json().data).toEqual({
    requireMfa: true,
    tempToken: TEMP_TOKEN,
    methods: ["totp", "recovery_code"],
  });
  expect(response.headers["cache-control"]).toBe("no-store");
  expect(response.headers["set-cookie"]).toBeUndefined();
  expect(entries[1]).toMatchObject({
    actor: { userId: USER_ID, claimedEmail: ada.email },
    outcome: "success",
  });
  expect(JSON.stringify(entries)).not.toContain(TEMP_TOKEN);
});

test("a right code completes the login, and the audit log has who it was and neither token nor code", async () => {
  const { app, entries, asked } = withMfa({
    completeMfaLogin: { result: completedLogin("d") },
  });
  const body = { tempToken: TEMP_TOKEN, code: CODE };
  const response = await send(app, { method: "POST", url: "/v1/auth/mfa/verify", body });
  expect(response.json().data).toEqual({
    accessToken: tokens.accessToken,
    refreshToken: tokens.refreshToken,
    tokenType: "Bearer",
    expiresIn: 900,
    user: adaJson,
  });
  expect(response.headers["cache-control"]).toBe("no-store");
  expect(asked).toMatchObject([{ ...body, clientIp: "127.0.0.1" }]);
  expect(entries).toMatchObject([
    { kind: "intent", action: "auth.mfa.verify", actor: {} },
    { kind: "outcome", actor: { userId: USER_ID, role: "USER", sessionId: SESSION_ID }, outcome: "success" },
  ]);
  for (const secret of [TEMP_TOKEN, CODE]) expect(JSON.stringify(entries)).not.toContain(secret);
});

test.each([
  { code: "mfa_code_invalid", status: 401 },
  { code: "mfa_token_invalid", status: 401 },
  { code: "too_many_requests", status: 429 },
] as const)("$code is $status", async ({ code, status }) => {
  const { app } = withMfa({ completeMfaLogin: new DomainError(code, undefined, { retryAfterMs: 61_000 }) });
  const body = { tempToken: TEMP_TOKEN, code: CODE };
  const response = await send(app, { method: "POST", url: "/auth/mfa/verify", body });
  expect(response.statusCode).toBe(status);
  expect(response.json().error.code).toBe(code);
  if (status === 401) expect(response.headers["www-authenticate"]).toMatch(/^Bearer error="invalid_grant"/);
  else expect(response.headers["retry-after"]).toBe("61");
});

test("a token that expires while the body comes is refused, also where a token in the body could replace it", async () => {
  let looks = 0;
  const { app } = testGateway({
    verifier: {
      verify: () =>
        (looks++ === 0
          ? { kind: "active", principal: principalWith("USER") }
          : { kind: "inactive", reason: "expired" }) as Verification,
      refuseSession: () => undefined,
      nowMs: () => Date.now(),
      assertReady: () => undefined,
      close: () => undefined,
    },
  });
  for (const [url, body] of [
    ["/auth/mfa/enable", { code: CODE }],
    ["/auth/mfa/setup", { password: "p" }],
    ["/auth/passkeys/options", {}],
    ["/auth/logout", {}],
  ] as const) {
    looks = 0;
    const answer = await send(app, { method: "POST", url, token: "user-token", body });
    expect([url, answer.statusCode, answer.json().error.code]).toEqual([url, 401, "token_expired"]);
  }
});

test("setting up is for the caller's own account", async () => {
  const enrollment = { secret: "S", otpauthUrl: "otpauth://totp/x", qrCode: "data:image/svg+xml;base64,x" };
  const { app, entries, asked } = withMfa({ beginTotpEnrollment: enrollment });
  const call = { method: "POST", url: "/auth/mfa/setup", body: { password: "p" } } as const;
  expect((await send(app, { ...call, token: "user-token" })).json().data).toEqual(enrollment);
  const session = { acr: "urn:gatehouse:acr:1", authTime: expect.any(Date) };
  expect(asked).toEqual([
    expect.objectContaining({ userId: USER_ID, password: "p", clientIp: "127.0.0.1", ...session }),
  ]);
  expect(entries[0]).toMatchObject({ action: "auth.mfa.setup", actor: { userId: USER_ID } });
});

test("what enabling and disabling ends is refused here at once, and the caller's session is not among it", async () => {
  const endedSessionIds = ["s1", "s2"];
  const { app, asked, refused } = withMfa({
    confirmTotpEnrollment: { recoveryCodes: RECOVERY_CODES, endedSessionIds },
    disableTotp: { endedSessionIds: ["s3"] },
  });
  const token = "user-token";
  const enabled = await send(app, { method: "POST", url: "/auth/mfa/enable", token, body: { code: CODE } });
  expect(enabled.json().data).toEqual({ recoveryCodes: RECOVERY_CODES });
  const body = { password: "p", code: CODE };
  const disabled = await send(app, { method: "POST", url: "/auth/mfa/disable", token, body });
  expect(disabled.json().data).toEqual({});
  const owner = { userId: USER_ID, sessionId: SESSION_ID, code: CODE };
  expect(asked).toMatchObject([owner, { ...owner, password: "p" }]);
  expect(refused).toEqual(["s1", "s2", "s3"]);
});

test("new recovery codes for a code", async () => {
  const { app, entries } = withMfa({ regenerateRecoveryCodes: { recoveryCodes: RECOVERY_CODES } });
  const call = { method: "POST", url: "/auth/mfa/recovery-codes", token: "user-token" } as const;
  const response = await send(app, { ...call, body: { code: CODE } });
  expect(response.json().data).toEqual({ recoveryCodes: RECOVERY_CODES });
  expect(entries[0]).toMatchObject({ action: "auth.mfa.recovery_codes" });
  expect(JSON.stringify(entries)).not.toMatch(/ABCD|123 456/);
});

test.each(["setup", "enable", "disable", "recovery-codes"])("%s needs an access token", async (name) => {
  const { app, entries } = withMfa({});
  for (const token of [undefined, TEMP_TOKEN]) {
    const call = { method: "POST", url: `/auth/mfa/${name}`, body: {} } as const;
    const response = await send(app, { ...call, ...(token !== undefined && { token }) });
    expect(response.statusCode).toBe(401);
  }
  expect(entries).toEqual([]);
});

test.each<{ path: string; body: unknown; fields: string[] }>([
  { path: "verify", body: {}, fields: ["body"] },
  { path: "verify", body: { tempToken: "t", code: 123456 }, fields: ["code"] },
  { path: "verify", body: { tempToken: "t", code: CODE, passkey: {} }, fields: ["passkey"] },
  { path: "verify", body: { tempToken: "t", code: CODE, x: 1 }, fields: ["x"] },
  ...[
    " 123456",
    "123456\n",
    "123 456",
    "12345",
    "1234567",
    "\u0661\u0662\u0663\u0664\u0665\u0666",
    "1e5",
    "ABCD-EFGH-IJKL-MNO0",
  ].map((code) => ({ path: "verify", body: { tempToken: "t", code }, fields: ["code"] })),
  {
    path: "verify",
    body: { tempToken: "t".repeat(201), code: "1".repeat(65) },
    fields: ["tempToken", "code"],
  },
  { path: "setup", body: {}, fields: ["body"] },
  { path: "enable", body: { code: "" }, fields: ["code"] },
  { path: "disable", body: { code: CODE }, fields: ["password"] },
  { path: "recovery-codes", body: { code: null }, fields: ["code"] },
])("$path refuses $body before anything is done", async ({ path, body, fields }) => {
  const { app, asked, entries } = withMfa({});
  const response = await send(app, { method: "POST", url: `/auth/mfa/${path}`, token: "user-token", body });
  expect(response.statusCode).toBe(400);
  const found = response.json().error.details.map(({ field }: { field: string }) => field);
  expect(found.sort()).toEqual(fields.sort());
  expect([asked, entries]).toEqual([[], []]);
});

test.each(["000000", "abcd efgh-ijkl - mnop", "ABCDEFGHIJKLMNOP"])(
  "%s has the form of a code",
  async (code) => {
    const { app, asked } = withMfa({ completeMfaLogin: new DomainError("mfa_code_invalid") });
    const body = { tempToken: TEMP_TOKEN, code };
    const response = await send(app, { method: "POST", url: "/auth/mfa/verify", body });
    expect(response.statusCode).toBe(401);
    expect(asked).toHaveLength(1);
  },
);

test("me says what can log in, and how many recovery codes are left, only with a second factor", async () => {
  const account = {
    user: { ...ada, mfaEnabled: true },
    recoveryCodesLeft: 9,
    hasTotp: true,
    totpSince: new Date("2031-01-02T03:04:05Z"),
    hasPassword: true,
    credentialsProven: false,
  };
  const { app } = testGateway({ identity: { getUser: async () => account } });
  const { data } = (await send(app, { url: "/auth/me", token: "user-token" })).json();
  expect(data).toMatchObject({
    recoveryCodesLeft: 9,
    totpEnabled: true,
    totpSince: "2031-01-02T03:04:05.000Z",
    hasPassword: true,
    credentialsProven: false,
  });
  expect(data.user).not.toHaveProperty("recoveryCodesLeft");
});

const enrollment = { secret: "S", otpauthUrl: "otpauth://totp/x", qrCode: "data:image/svg+xml;base64,x" };
const completedEnrollment = { result: completedLogin("d"), recoveryCodes: RECOVERY_CODES };

test("a role that requires a second factor gets a tempToken for its enrollment, and no tokens", async () => {
  const value = { tempToken: TEMP_TOKEN, methods: ["totp"], userId: USER_ID };
  const { app, entries } = testGateway({
    identity: { login: async () => ({ result: { $case: "mfaEnrollment", value } }) },
  });
  const body = { email: ada.email, password: "correct horse" };
  const response = await send(app, { method: "POST", url: "/auth/login", body });
  expect(response.statusCode).toBe(200);
  expect(response.json().data).toEqual({
    requireMfaEnrollment: true,
    tempToken: TEMP_TOKEN,
    methods: ["totp"],
  });
  expect(entries[1]).toMatchObject({ actor: { userId: USER_ID }, outcome: "success" });
  expect(JSON.stringify(entries)).not.toContain(TEMP_TOKEN);
});

test("its tempToken sets up and enables without an access token, and completes the login", async () => {
  const { app, entries, asked } = withMfa({
    beginTotpEnrollmentAtLogin: { ...enrollment, userId: USER_ID },
    completeTotpEnrollmentAtLogin: completedEnrollment,
  });
  const tempToken = TEMP_TOKEN;
  const setUp = await send(app, { method: "POST", url: "/auth/mfa/setup", body: { tempToken } });
  expect(setUp.json().data).toEqual(enrollment);
  const body = { tempToken, code: CODE };
  const enabled = await send(app, { method: "POST", url: "/auth/mfa/enable", body });
  expect(enabled.json().data).toEqual({
    accessToken: tokens.accessToken,
    refreshToken: tokens.refreshToken,
    tokenType: "Bearer",
    expiresIn: 900,
    user: adaJson,
    recoveryCodes: RECOVERY_CODES,
  });
  expect(enabled.headers["cache-control"]).toBe("no-store");
  expect(asked).toMatchObject([{ tempToken }, { ...body, clientIp: "127.0.0.1", deviceToken: "" }]);
  expect(entries).toMatchObject([
    { kind: "intent", action: "auth.mfa.setup", actor: {} },
    { kind: "outcome", actor: { userId: USER_ID }, outcome: "success" },
    { kind: "intent", action: "auth.mfa.enable", actor: {} },
    { kind: "outcome", actor: { userId: USER_ID, sessionId: SESSION_ID }, outcome: "success" },
  ]);
  for (const secret of [TEMP_TOKEN, CODE, "ABCD"]) expect(JSON.stringify(entries)).not.toContain(secret);
});

test("the tempToken of another person than the access token's is not recorded with that one's session", async () => {
  const userId = "0199a000-0000-7000-8000-0000000000ff";
  const { app, entries } = withMfa({ beginTotpEnrollmentAtLogin: { ...enrollment, userId } });
  const body = { tempToken: TEMP_TOKEN };
  await send(app, { method: "POST", url: "/auth/mfa/setup", token: "user-token", body });
  expect(entries.map(({ kind, actor }) => [kind, actor])).toEqual([
    ["intent", { userId: USER_ID, role: "USER", sessionId: SESSION_ID }],
    ["outcome", { userId }],
  ]);
});

test.each([
  ["/auth/mfa/setup", { password: "p" }, undefined, "token_missing"],
  ["/auth/mfa/enable", { code: CODE }, undefined, "token_missing"],
  ["/auth/mfa/enable", { code: CODE }, TEMP_TOKEN, "token_invalid"],
  ["/auth/mfa/setup", { tempToken: TEMP_TOKEN }, TEMP_TOKEN, "token_invalid"],
  ["/auth/mfa/disable", { tempToken: TEMP_TOKEN }, undefined, "token_missing"],
  ["/auth/mfa/recovery-codes", { tempToken: TEMP_TOKEN, code: CODE }, undefined, "token_missing"],
])("%s with %j and the access token %s is %s: nothing is asked", async (url, body, token, code) => {
  const { app, asked } = withMfa({});
  const response = await send(app, { method: "POST", url, body, ...(token !== undefined && { token }) });
  expect(response.statusCode).toBe(401);
  expect(response.json().error.code).toBe(code);
  expect(asked).toEqual([]);
});

test.each(["mfaEnrollment", "passwordChange", undefined])(
  "an enrollment that comes to %s is no login",
  async ($case) => {
    const result = {
      result: $case && { $case, value: { tempToken: TEMP_TOKEN, methods: [], userId: USER_ID } },
    };
    const { app } = withMfa({ completeTotpEnrollmentAtLogin: { ...completedEnrollment, result } });
    const body = { tempToken: TEMP_TOKEN, code: CODE };
    const response = await send(app, { method: "POST", url: "/auth/mfa/enable", body });
    expect(response.statusCode).toBe(500);
  },
);

test("the offer to trust the device reaches the client, and its wish identity-service", async () => {
  const pending = { tempToken: TEMP_TOKEN, methods: ["totp"], userId: USER_ID, trustDeviceDays: 30 };
  const wishes: unknown[] = [];
  const { app } = testGateway({
    identity: {
      login: async () => ({ result: { $case: "mfaChallenge", value: pending } }),
      completeMfaLogin: async ({ trustDevice }) => {
        wishes.push(trustDevice);
        throw new DomainError("mfa_code_invalid");
      },
    },
  });
  const body = { email: ada.email, password: "correct horse" };
  const login = await send(app, { method: "POST", url: "/auth/login", body });
  expect(login.json().data).toMatchObject({ requireMfa: true, trustDeviceDays: 30 });
  const verify = (trustDevice: unknown) => {
    const typed = { tempToken: TEMP_TOKEN, code: CODE, ...(trustDevice !== undefined && { trustDevice }) };
    return send(app, { method: "POST", url: "/auth/mfa/verify", body: typed });
  };
  for (const wish of [true, false, undefined]) await verify(wish);
  expect(wishes).toEqual([true, false, false]);
  expect((await verify("true")).statusCode).toBe(400);
});
