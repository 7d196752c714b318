import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type Answer, type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { readLog, type System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

const verify = (tempToken: string, code: string) => api.post("/auth/mfa/verify", { tempToken, code });
const failure = (answer: Answer) => ({ status: answer.status, code: answer.body.error?.code });

/** A new user whose second factor is on. */
async function newUserWithMfa() {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  const token = user.accessToken;
  const setUp = await api.post("/auth/mfa/setup", { password: user.password }, { token });
  expect(setUp.status).toBe(200);
  const nextCode = totpApp(setUp.body.data.secret);
  const enabled = await api.post("/auth/mfa/enable", { code: await nextCode() }, { token });
  expect(enabled.status).toBe(200);
  return {
    user,
    token,
    nextCode,
    setUp,
    enabled,
    recoveryCodes: enabled.body.data.recoveryCodes as string[],
  };
}

async function begin({ email, password }: { email: string; password: string }): Promise<string> {
  const answer = await api.post("/auth/login", { email, password });
  expect(answer).toMatchObject({ status: 200, body: { data: { requireMfa: true } } });
  return answer.body.data.tempToken as string;
}

test("set up, log in with a code, see how many recovery codes are left, turn it off again", async () => {
  const { user, token, nextCode, setUp, enabled, recoveryCodes } = await newUserWithMfa();
  expect(setUp.body.data).toEqual({
    secret: expect.stringMatching(/^[A-Z2-7]{32}$/),
    otpauthUrl: expect.stringMatching(/^otpauth:\/\/totp\/Gatehouse:.*secret=/),
    qrCode: expect.stringMatching(/^data:image\/svg\+xml;base64,/),
  });
  for (const answer of [setUp, enabled]) expect(answer.headers.get("cache-control")).toBe("no-store");
  expect(new Set(recoveryCodes).size).toBe(10);

  const challenge = await api.post("/auth/login", { email: user.email, password: user.password });
  expect(challenge.body.data).toEqual({
    requireMfa: true,
    tempToken: expect.stringMatching(/^[\w-]{43}$/),
    methods: ["totp", "recovery_code"],
  });
  expect(challenge.headers.get("cache-control")).toBe("no-store");

  const loggedIn = await verify(challenge.body.data.tempToken, await nextCode());
  expect(loggedIn).toMatchObject({
    status: 200,
    body: { data: { tokenType: "Bearer", expiresIn: 900, user: { id: user.user.id, mfaEnabled: true } } },
  });
  const next = loggedIn.body.data.accessToken;
  const me = await api.get("/auth/me", { token: next });
  expect(me.body.data).toMatchObject({ user: { mfaEnabled: true }, recoveryCodesLeft: 10 });
  const { body } = await api.get("/auth/sessions", { token: next });
  const current = body.data.sessions.find((session: { current: boolean }) => session.current);
  expect(current.amr).toEqual(["pwd", "otp", "mfa"]);

  const off = { password: user.password, code: recoveryCodes[0] };
  expect((await api.post("/auth/mfa/disable", off, { token: next })).status).toBe(200);
  expect((await api.get("/auth/me", { token: next })).body.data).not.toHaveProperty("recoveryCodesLeft");
  expect((await api.get("/auth/me", { token })).status).toBe(401);
  await api.logIn(user);
});

test("turning it on ends the other sessions at once and leaves the one that did it", async () => {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  const other = await api.logIn(user);
  const token = user.accessToken;
  const { body } = await api.post("/auth/mfa/setup", { password: user.password }, { token });
  await api.post("/auth/mfa/enable", { code: await totpApp(body.data.secret)() }, { token });
  expect((await api.get("/auth/me", { token })).status).toBe(200);
  expect((await api.get("/auth/me", { token: other.accessToken })).status).toBe(401);
  expect(failure(await api.post("/auth/refresh", { refreshToken: other.refreshToken }))).toEqual({
    status: 401,
    code: "refresh_token_invalid",
  });
});

test("a tempToken is no access token and no refresh token anywhere", async () => {
  const { user } = await newUserWithMfa();
  const tempToken = await begin(user);
  const calls: [string, string, unknown][] = [
    ["GET", "/auth/me", undefined],
    ["GET", "/auth/sessions", undefined],
    ["POST", "/auth/logout", undefined],
    ["POST", "/auth/mfa/setup", { password: user.password }],
    ["POST", "/auth/mfa/enable", { code: "123456" }],
    ["POST", "/auth/mfa/disable", { password: user.password, code: "123456" }],
    ["POST", "/auth/mfa/recovery-codes", { code: "123456" }],
    ["GET", "/admin/audit", undefined],
    ["GET", "/payments", undefined],
    ["POST", "/payments", { amount: 1, currency: "EUR", payee: "A", reference: "B" }],
  ];
  for (const [method, path, body] of calls) {
    const answer = await api.call(method, path, { token: tempToken, ...(body !== undefined && { body }) });
    expect({ path, ...failure(answer) }).toEqual({ path, status: 401, code: "token_invalid" });
  }
  expect(failure(await api.post("/auth/refresh", { refreshToken: tempToken }))).toEqual({
    status: 401,
    code: "refresh_token_invalid",
  });
});

test("a code, a recovery code and a tempToken each count once; five tries a login", async () => {
  const { user, nextCode, recoveryCodes } = await newUserWithMfa();
  const [first, second, third] = [await begin(user), await begin(user), await begin(user)];
  const code = await nextCode();
  const raced = await Promise.all([verify(first, code), verify(second, code), verify(third, code)]);
  expect(raced.map(({ status }) => status).sort()).toEqual([200, 401, 401]);

  const typed = recoveryCodes[0]?.toLowerCase().replaceAll("-", " ") ?? "";
  const token = await begin(user);
  expect((await verify(token, typed)).status).toBe(200);
  expect(failure(await verify(token, recoveryCodes[1] ?? ""))).toEqual({
    status: 401,
    code: "mfa_token_invalid",
  });

  const last = await begin(user);
  for (let count = 0; count < 5; count += 1) {
    expect(failure(await verify(last, recoveryCodes[0] ?? ""))).toEqual({
      status: 401,
      code: "mfa_code_invalid",
    });
  }
  expect(failure(await verify(last, recoveryCodes[1] ?? ""))).toEqual({
    status: 401,
    code: "mfa_token_invalid",
  });
});

test("the owner is notified by mail, and the audit log has each call without a secret", async () => {
  const { user, token, nextCode, setUp, recoveryCodes } = await newUserWithMfa();
  const tempToken = await begin(user);
  const verified = await verify(tempToken, recoveryCodes[0] ?? "");
  const renewed = await api.post("/auth/mfa/recovery-codes", { code: await nextCode() }, { token });
  expect(renewed.body.data.recoveryCodes).toHaveLength(10);

  const subjects = async () => {
    const response = await fetch(`http://127.0.0.1:${system.ports.MAILBOX_PORT}/email`);
    const mails = (await response.json()) as { subject: string; to: { address: string }[] }[];
    return mails.filter(({ to }) => to[0]?.address === user.email).map(({ subject }) => subject);
  };
  await expect
    .poll(subjects)
    .toEqual(
      expect.arrayContaining([
        "Your second factor was turned on",
        "One of your recovery codes was used",
        "You have new recovery codes",
      ]),
    );

  await using database = await databaseOfSystem(system, "audit");
  const requestId = verified.headers.get("x-request-id");
  const outcome = () => database.sql`
    select action, actor_user_id as "userId", outcome from log_entries
    where request_id = ${requestId} and kind = 'outcome'`;
  await expect
    .poll(outcome)
    .toEqual([{ action: "auth.mfa.verify", userId: user.user.id, outcome: "success" }]);
  const audit = JSON.stringify(await database.sql`select * from log_entries`);
  const names = ["gateway", "identity-service", "token-service", "audit-service", "postgres"];
  const logs = (await Promise.all(names.map((name) => readLog(system, name)))).join("\n");
  for (const text of [
    setUp.body.data.secret,
    tempToken,
    ...recoveryCodes,
    ...renewed.body.data.recoveryCodes,
  ]) {
    expect(audit.includes(text)).toBe(false);
    expect(logs.includes(text)).toBe(false);
  }
});

test("an unknown tempToken is refused like one that is over", async () => {
  const made = randomUUID().replaceAll("-", "").padEnd(43, "x");
  expect(failure(await verify(made, "123456"))).toEqual({ status: 401, code: "mfa_token_invalid" });
});
