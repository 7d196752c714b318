import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { text } from "node:stream/consumers";
import { generateSync } from "otplib";
import { beforeAll, expect, test } from "vitest";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type Answer, type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem, ownAddress } from "../../support/system/one-system.ts";
import { ADMIN, type System } from "../../support/system/system.ts";

const DAYS = 30; // as the shared system has it

let system: System;
let api: ApiClient;
let admin: { token: string; id: string; recoveryCodes: string[] };

beforeAll(async () => {
  system = oneSystem();
  api = apiClient(system.url);
  admin = await enrolAtLogin(ADMIN);
});

interface Person {
  email: string;
  password: string;
}

/** A code lasts two steps, so that of the step that begins cannot end before its use. */
const codeOf = (secret: string) => generateSync({ secret, epoch: Math.floor(Date.now() / 1_000) });
const outcome = ({ status, body }: Answer) => `${status} ${body.error?.code ?? "ok"}`;
const logIn = ({ email, password }: Person, headers: Record<string, string> = {}) =>
  api.post("/auth/login", { email, password }, { headers });
const claimsOf = (token: string) =>
  JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString("utf8"));

async function enrolmentOf(person: Person): Promise<string> {
  const login = await logIn(person);
  expect(login.body.data).toEqual({
    requireMfaEnrollment: true,
    tempToken: expect.stringMatching(/^[\w-]{43}$/),
    methods: expect.arrayContaining(["totp"]),
  });
  return login.body.data.tempToken;
}

async function enrolAtLogin(person: Person) {
  const tempToken = await enrolmentOf(person);
  const setUp = await api.post("/auth/mfa/setup", { tempToken });
  expect(outcome(setUp)).toBe("200 ok");
  const enabled = await api.post("/auth/mfa/enable", { tempToken, code: codeOf(setUp.body.data.secret) });
  expect(outcome(enabled)).toBe("200 ok");
  const again = await api.post("/auth/mfa/setup", { tempToken });
  expect(outcome(again)).toBe("401 mfa_token_invalid");
  const { accessToken: token, user, recoveryCodes } = enabled.body.data;
  return { token, id: user.id as string, recoveryCodes: recoveryCodes as string[] };
}

/** A user with a second factor, whose codes are recovery codes: no wait for a step. */
async function newUserWithMfa() {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  const token = user.accessToken;
  const setUp = await api.post("/auth/mfa/setup", { password: user.password }, { token });
  const enabled = await api.post("/auth/mfa/enable", { code: codeOf(setUp.body.data.secret) }, { token });
  expect(outcome(enabled)).toBe("200 ok");
  return { ...user, recoveryCodes: enabled.body.data.recoveryCodes as string[] };
}

/** A browser: keeps the newest device cookie. */
function browserOf(user: Person & { recoveryCodes: string[] }) {
  const cookies: string[] = [];
  const headers = () => ({ cookie: cookies.at(-1) ?? "" });
  const keep = (answer: Answer) => {
    const cookie = answer.headers.get("set-cookie");
    if (cookie !== null) cookies.push(cookie.split(";")[0] ?? "");
    return answer;
  };
  return {
    cookies,
    logIn: async () => keep(await logIn(user, headers())),
    verify: async ({ body }: Answer, trustDevice: boolean) => {
      const typed = { tempToken: body.data.tempToken, code: user.recoveryCodes.pop(), trustDevice };
      return keep(await api.post("/auth/mfa/verify", typed, { headers: headers() }));
    },
    async trust(): Promise<string> {
      const answer = await this.verify(await this.logIn(), true);
      expect(outcome(answer)).toBe("200 ok");
      return answer.body.data.accessToken;
    },
  };
}
const isAsked = ({ status, body }: Answer) => status === 200 && body.data.requireMfa === true;
const devicesOf = async (token: string) =>
  (await api.get("/auth/sessions", { token })).body.data.trustedDevices;

test("the first administrator sets up a second factor at login, and administrates then", async () => {
  expect(claimsOf(admin.token)).toMatchObject({ acr: "urn:gatehouse:acr:2", amr: ["pwd", "otp", "mfa"] });
  expect(outcome(await api.get("/admin/users", { token: admin.token }))).toBe("200 ok");
  expect(isAsked(await logIn(ADMIN))).toBe(true);
});

test("the tempToken of an enrolment opens nothing else", async () => {
  const person = await newAuditor();
  const tempToken = await enrolmentOf(person);
  const asBearer: [string, string, unknown][] = [
    ["GET", "/auth/me", undefined],
    ["GET", "/auth/sessions", undefined],
    ["GET", "/auth/passkeys", undefined],
    ["POST", "/auth/step-up", { acr: 2 }],
    ["POST", "/auth/mfa/setup", { password: person.password }],
    ["POST", "/auth/mfa/recovery-codes", { code: "123456" }],
    ["POST", "/auth/change-password", { currentPassword: person.password, newPassword: "another long one" }],
    ["POST", "/auth/logout", undefined],
    ["GET", "/admin/audit", undefined],
    ["GET", "/payments", undefined],
  ];
  for (const [method, path, body] of asBearer) {
    const answer = await api.call(method, path, { token: tempToken, ...(body !== undefined && { body }) });
    expect([path, outcome(answer)]).toEqual([path, "401 token_invalid"]);
  }
  const inBody: [string, unknown, string][] = [
    ["/auth/mfa/verify", { tempToken, code: "123456" }, "mfa_token_invalid"],
    [
      "/auth/login/change-password",
      { tempToken, newPassword: "another long one" },
      "password_change_token_invalid",
    ],
    ["/auth/refresh", { refreshToken: tempToken }, "refresh_token_invalid"],
    ["/auth/logout", { refreshToken: tempToken }, "refresh_token_invalid"],
  ];
  for (const [path, body, code] of inBody)
    expect([path, outcome(await api.post(path, body))]).toEqual([path, `401 ${code}`]);
  // It is still good for what it is.
  expect(outcome(await api.post("/auth/mfa/setup", { tempToken }))).toBe("200 ok");
});

/** A user who became an auditor without a second factor. */
async function newAuditor() {
  const user = await api.newUser();
  const changed = await api.call("PATCH", `/admin/users/${user.user.id}`, {
    token: admin.token,
    body: { role: "AUDITOR" },
  });
  expect(outcome(changed)).toBe("200 ok");
  return user;
}

test("a role that is granted later ends the sessions; the next login sets up a factor, and the last one stays", async () => {
  const user = await newAuditor();
  expect(outcome(await api.get("/auth/me", { token: user.accessToken }))).toBe("401 token_invalid");
  const refreshed = await api.post("/auth/refresh", { refreshToken: user.refreshToken });
  expect(outcome(refreshed)).toBe("401 refresh_token_invalid");

  const { token, recoveryCodes } = await enrolAtLogin(user);
  expect(outcome(await api.get("/admin/audit", { token }))).toBe("200 ok");
  const off = { password: user.password, code: recoveryCodes[0] };
  expect(outcome(await api.post("/auth/mfa/disable", off, { token }))).toBe("409 mfa_required");

  const reset = await api.post(`/admin/users/${user.user.id}/mfa/reset`, undefined, { token: admin.token });
  expect(outcome(reset)).toBe("200 ok");
  expect(outcome(await api.get("/auth/me", { token }))).toBe("401 token_invalid");
  await enrolmentOf(user);
});

test("a trusted browser logs in without a code, at level 1; a step-up asks", async () => {
  const user = await newUserWithMfa();
  const browser = browserOf(user);
  const asked = await browser.logIn();
  expect(asked.body.data).toMatchObject({ requireMfa: true, trustDeviceDays: DAYS });
  const trusted = await browser.verify(asked, true);
  const attributes = trusted.headers.get("set-cookie") ?? "";
  expect(attributes).toMatch(
    /^gatehouse_device=2\.[^;]+; Max-Age=15552000; Path=\/auth; HttpOnly; SameSite=Lax$/,
  );
  expect(claimsOf(trusted.body.data.accessToken).acr).toBe("urn:gatehouse:acr:2");

  const login = await browser.logIn();
  expect(outcome(login)).toBe("200 ok");
  const { accessToken: token, refreshToken } = login.body.data;
  expect(claimsOf(token)).toMatchObject({ acr: "urn:gatehouse:acr:1", amr: ["pwd"] });
  const refreshed = await api.post("/auth/refresh", { refreshToken });
  expect(claimsOf(refreshed.body.data.accessToken)).toMatchObject({
    acr: "urn:gatehouse:acr:1",
    amr: ["pwd"],
  });

  const off = { password: user.password, code: "AAAA-AAAA-AAAA-AAAA" };
  expect(outcome(await api.post("/auth/mfa/disable", off, { token }))).toBe("401 mfa_code_invalid");
  const passkey = await api.post("/auth/passkeys/options", undefined, { token });
  expect(outcome(passkey)).toBe("401 step_up_required");
  expect(passkey.headers.get("www-authenticate")).toContain('acr_values="urn:gatehouse:acr:2", max_age=300');
  expect(passkey.body.error.details).toMatchObject({ acr: 2, maxAgeSeconds: 300 });
  const stepUp = await api.post("/auth/step-up", { acr: 2 }, { token });
  expect(stepUp.body.data.methods).toEqual(["totp", "recovery_code"]);
  const { stepUpToken } = stepUp.body.data;
  const byPassword = { stepUpToken, password: user.password };
  expect(outcome(await api.post("/auth/step-up/verify", byPassword, { token }))).toBe(
    "401 step_up_token_invalid",
  );
  const raised = await api.post(
    "/auth/step-up/verify",
    { stepUpToken, code: user.recoveryCodes.pop() },
    { token },
  );
  expect(claimsOf(raised.body.data.accessToken).acr).toBe("urn:gatehouse:acr:2");
  const { accessToken: high } = raised.body.data;
  expect(outcome(await api.post("/auth/passkeys/options", undefined, { token: high }))).toBe("200 ok");
});

test("the owner sees trusted browsers with the sessions and takes them back; the audit log has both", async () => {
  const user = await newUserWithMfa();
  const browser = browserOf(user);
  const token = await browser.trust();
  const [device, ...others] = await devicesOf(token);
  expect(others).toEqual([]);
  expect(device).toMatchObject({ ip: ownAddress(), userAgent: expect.any(String) });
  const lifetimeMs = Date.parse(device.expiresAt) - Date.parse(device.createdAt);
  expect(lifetimeMs).toBe(DAYS * 24 * 3_600_000);

  const path = `/auth/trusted-devices/${device.id}`;
  const stranger = await api.newUser();
  const foreign = await api.call("DELETE", path, { token: stranger.accessToken });
  expect(outcome(foreign)).toBe("404 not_found");
  expect(outcome(await api.call("DELETE", path, { token }))).toBe("200 ok");
  expect(await devicesOf(token)).toEqual([]);
  expect(isAsked(await browser.logIn())).toBe(true);
  expect(outcome(await api.get("/auth/me", { token }))).toBe("200 ok");

  await using database = await databaseOfSystem(system, "audit");
  const actions = async () =>
    (
      await database.sql`
        select action from log_entries where resource = ${user.user.id} and action like '%device%' order by occurred_at`
    ).map(({ action }) => action);
  await expect.poll(actions).toEqual(["user.device_trusted", "user.trusted_device_removed"]);
  const log = JSON.stringify(await database.sql`select * from log_entries`);
  for (const cookie of browser.cookies) expect(log).not.toContain(cookie.split(".")[5]);
});

/** A call from another address of this machine. */
async function fromElsewhere(
  path: string,
  body: unknown,
  cookie: string,
): Promise<{ status: number; body: unknown }> {
  const headers = { "content-type": "application/json", cookie };
  const sent = httpRequest(system.url + path, {
    method: "POST",
    localAddress: "127.0.0.2",
    family: 4,
    headers,
  });
  sent.end(JSON.stringify(body));
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  return { status: response.statusCode ?? 0, body: JSON.parse(await text(response)) };
}

test("a stolen cookie opens nothing elsewhere, at another user, or after its use, which ends the trust", async () => {
  const user = await newUserWithMfa();
  const other = await newUserWithMfa();
  const browser = browserOf(user);
  await browser.trust();
  const cookie = browser.cookies.at(-1) ?? "";
  const { email, password } = user;
  await expect
    .poll(() => fromElsewhere("/auth/login", { email, password }, cookie))
    .toMatchObject({ status: 200, body: { data: { requireMfa: true } } });
  expect(isAsked(await logIn(other, { cookie }))).toBe(true);
  expect(isAsked(await logIn(user, { cookie: `${cookie.slice(0, -2)}AA` }))).toBe(true);

  expect((await browser.logIn()).body.data).toHaveProperty("accessToken");
  expect(isAsked(await logIn(user, { cookie }))).toBe(true);
  expect(isAsked(await browser.logIn())).toBe(true);
});

test("a client without cookies keeps the trust in its header", async () => {
  const user = await newUserWithMfa();
  const begun = await logIn(user, { "gatehouse-device": "new" });
  const typed = { tempToken: begun.body.data.tempToken, code: user.recoveryCodes.pop(), trustDevice: true };
  const trusted = await api.post("/auth/mfa/verify", typed, { headers: { "gatehouse-device": "new" } });
  const device = trusted.headers.get("gatehouse-device") ?? "";
  const login = await logIn(user, { "gatehouse-device": device });
  expect(login.body.data).toHaveProperty("accessToken");
  expect(login.headers.get("gatehouse-device")).not.toBe(device);
});

test("a new password, the end of the other sessions, and a role that requires a factor end the trust", async () => {
  const user = await newUserWithMfa();
  const browser = browserOf(user);
  const first = await browser.trust();
  expect(outcome(await api.post("/auth/logout", { scope: "others" }, { token: first }))).toBe("200 ok");
  const second = await browser.trust();
  const change = { currentPassword: user.password, newPassword: "an entirely new password" };
  expect(outcome(await api.post("/auth/change-password", change, { token: second }))).toBe("200 ok");
  user.password = change.newPassword;
  const third = await browser.trust();
  expect(await devicesOf(third)).toHaveLength(1);
  const promoted = await api.call("PATCH", `/admin/users/${user.user.id}`, {
    token: admin.token,
    body: { role: "AUDITOR" },
  });
  expect(outcome(promoted)).toBe("200 ok");
  const asked = await browser.logIn();
  expect(isAsked(asked)).toBe(true);
  expect(asked.body.data).not.toHaveProperty("trustDeviceDays");
  const verified = await browser.verify(asked, true);
  expect(await devicesOf(verified.body.data.accessToken)).toEqual([]);
});

test("the link of the mail about a trusted browser logs everybody out", async () => {
  const user = await newUserWithMfa();
  const token = await browserOf(user).trust();
  const mail = await mailAbout(system, user.email, "New trusted browser on your account");
  const link = linkIn(mail);
  expect(link.pathname).toBe("/auth/undo-access-change");
  const undone = await api.post("/auth/undo-access-change", { token: link.searchParams.get("token") });
  expect(outcome(undone)).toBe("200 ok");
  expect(outcome(await api.get("/auth/me", { token }))).toBe("401 token_invalid");
  expect(outcome(await logIn(user))).toBe("401 invalid_credentials");
});
