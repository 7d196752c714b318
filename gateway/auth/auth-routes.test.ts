import { expect, test } from "vitest";
import { parseAccessFile } from "#access-file/access-file.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Backends } from "../backends/backends.ts";
import {
  ada,
  adaJson,
  completedLogin,
  account as ownAccount,
  SESSION_ID,
  send,
  shippedAccess,
  testGateway,
  tokens,
  USER_ID,
} from "../testing/test-gateway.ts";

function withIdentity(identity: Partial<Backends["identity"]>) {
  return testGateway({ identity });
}

function withSessions(sessions: Partial<Backends["sessions"]>, identity: Partial<Backends["identity"]> = {}) {
  return testGateway({ identity, sessions });
}

const account = {
  email: "Ada@Example.com",
  password: "correct horse",
  firstName: "Ada",
  lastName: "Lovelace",
};

test("registering gives 201 and the user, and hands on what was typed", async () => {
  const asked: unknown[] = [];
  const { app } = withIdentity({
    register: async (registration) => {
      asked.push(registration);
      return { user: ada };
    },
  });
  for (const url of ["/auth/register", "/v1/auth/register"]) {
    const response = await send(app, { method: "POST", url, body: account });
    expect(response.statusCode).toBe(201);
    expect(response.json()).toEqual({ success: true, data: { user: adaJson }, message: expect.any(String) });
    expect(response.headers["cache-control"]).toBe("no-store");
  }
  const registration = { ...account, language: "", timeZone: "", clientIp: "127.0.0.1" };
  expect(asked).toEqual([registration, registration]);
});

test("a registration's language is that of the body, else the one that Accept-Language prefers, if any", async () => {
  const asked: unknown[] = [];
  const register = async ({ language, timeZone }: { language: string; timeZone: string }) => {
    asked.push([language, timeZone]);
    return { user: { ...ada, language, timeZone } };
  };
  const { app } = testGateway({ identity: { register } });
  const post = (header: string, fields: object = {}) =>
    send(app, {
      method: "POST",
      url: "/auth/register",
      headers: { "accept-language": header },
      body: { ...account, ...fields },
    });
  await post("en;q=0.2, de-AT");
  await post("no language at all");
  const answered = await post("de", { language: "fr", timeZone: "Europe/Paris" });
  expect(asked).toEqual([
    ["de-AT", ""],
    ["", ""],
    ["fr", "Europe/Paris"],
  ]);
  expect(answered.json().data.user).toMatchObject({ language: "fr", timeZone: "Europe/Paris" });
  expect((await post("de", { language: "x".repeat(36) })).statusCode).toBe(400);
});

test("a person with one name registers, and takes the last name away later", async () => {
  const asked: unknown[] = [];
  const user = { ...ada, lastName: "" };
  const note = async (request: { lastName?: string | undefined }) => {
    asked.push(request.lastName);
    return { user };
  };
  const { app } = testGateway({ identity: { register: note, updateProfile: note } });
  const { lastName: _, ...oneName } = account;
  for (const body of [oneName, { ...oneName, lastName: "" }, { ...oneName, lastName: "  " }]) {
    const response = await send(app, { method: "POST", url: "/auth/register", body });
    expect(response.json().data.user).toEqual({ ...adaJson, lastName: "" });
  }
  for (const body of [{ firstName: "Ada" }, { lastName: "" }])
    await send(app, { method: "PATCH", url: "/auth/me", token: "user-token", body });
  expect(asked).toEqual(["", "", "  ", undefined, ""]);
});

test("logging in gives the tokens and the user", async () => {
  const { app } = withIdentity({ login: async () => completedLogin() });
  const body = { email: ada.email, password: "correct horse" };
  const response = await send(app, { method: "POST", url: "/auth/login", body });
  expect(response.statusCode).toBe(200);
  expect(response.json().data).toEqual({
    accessToken: tokens.accessToken,
    refreshToken: tokens.refreshToken,
    tokenType: "Bearer",
    expiresIn: 900,
    user: adaJson,
  });
});

test("refreshing gives the next tokens", async () => {
  const { app } = withSessions({ refreshSession: async () => ({ tokens }) });
  const body = { refreshToken: "old" };
  const response = await send(app, { method: "POST", url: "/auth/refresh", body });
  expect(response.json().data).toEqual({
    accessToken: tokens.accessToken,
    refreshToken: tokens.refreshToken,
    tokenType: "Bearer",
    expiresIn: 900,
  });
});

test("me is the caller's own account, asked for in the caller's name and within a second", async () => {
  let asked: { userId: string; context: CallContext } | undefined;
  const { app } = withIdentity({
    getUser: async ({ userId }, context) => {
      asked = { userId, context };
      return ownAccount;
    },
  });
  const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  const response = await send(app, { url: "/auth/me", token: "user-token", headers: { traceparent } });
  expect(response.json().data).toEqual({
    user: adaJson,
    permissions: ["payments:read", "payments:write"],
    totpEnabled: false,
    hasPassword: true,
    credentialsProven: true,
  });
  expect(asked?.userId).toBe(USER_ID);
  expect(asked?.context).toMatchObject({
    requestId: response.headers["x-request-id"],
    traceparent,
    actor: { userId: USER_ID, role: "USER", sessionId: SESSION_ID },
  });
  expect((asked?.context.deadlineMs ?? 0) - Date.now()).toBeLessThanOrEqual(1_000);
});

test("a call may wait for other services as long as the operator says, also after its body", async () => {
  const leftMs: number[] = [];
  const note = async (_request: unknown, { deadlineMs }: CallContext) => {
    leftMs.push(deadlineMs - Date.now());
    return ownAccount;
  };
  const { app } = testGateway({ identity: { getUser: note, updateProfile: note }, callBudgetMs: 600_000 });
  await send(app, { url: "/auth/me", token: "user-token" });
  await send(app, { method: "PATCH", url: "/auth/me", token: "user-token", body: { firstName: "Ada" } });
  expect(leftMs).toHaveLength(2);
  for (const left of leftMs) expect(left).toBeGreaterThan(60_000);
});

test("a caller learns what the role may do, as the access file is now", async () => {
  const access = shippedAccess();
  const { app } = testGateway({
    access,
    identity: {
      getUser: async () => ownAccount,
    },
  });
  const permissions = async () =>
    (await send(app, { url: "/auth/me", token: "support-token" })).json().data.permissions;
  expect(await permissions()).toEqual([
    "users:read",
    "users:unlock",
    "users:help",
    "sessions:read",
    "sessions:end",
    "mfa:reset",
    "audit:read:user",
  ]);
  access.replace(
    parseAccessFile("roles: { ADMIN: ['*'], USER: [], SUPPORT: [audit:read] }\ndefaultRole: USER"),
  );
  expect(await permissions()).toEqual(["audit:read", "audit:read:user"]);
});

test("a token of a deleted account is invalid", async () => {
  const { app } = withIdentity({ getUser: () => Promise.reject(new DomainError("not_found")) });
  const response = await send(app, { url: "/auth/me", token: "user-token" });
  expect(response.json().error.code).toBe("token_invalid");
});

test.each<{ body: unknown; details: [string, string][] }>([
  {
    body: {},
    details: [
      ["email", "required"],
      ["password", "required"],
      ["firstName", "required"],
    ],
  },
  {
    body: { ...account, role: "ADMIN", x: 1 },
    details: [
      ["role", "unknown_key"],
      ["x", "unknown_key"],
    ],
  },
  {
    body: { email: 123, password: null, firstName: ["Ada"], lastName: true },
    details: [
      ["email", "invalid_type"],
      ["password", "invalid_type"],
      ["firstName", "invalid_type"],
      ["lastName", "invalid_type"],
    ],
  },
  { body: { ...account, email: { $ne: null } }, details: [["email", "invalid_type"]] },
  { body: { ...account, email: "no address" }, details: [["email", "invalid_format"]] },
  { body: { ...account, password: "x".repeat(1_025) }, details: [["password", "too_long"]] },
  { body: { ...account, firstName: "", lastName: "x".repeat(101) }, details: expect.anything() },
  { body: { ...account, firstName: "A\u0000da" }, details: [["firstName", "invalid_format"]] },
  { body: { ...account, lastName: "\u200b" }, details: [["lastName", "invalid_format"]] },
  { body: '{"email":"a@b.co","email":"c@d.co"}', details: [["email", "duplicate_key"]] },
  { body: [], details: [["body", "invalid_type"]] },
  { body: "null", details: [["body", "invalid_type"]] },
  { body: "", details: [["body", "required"]] },
])("a wrong body is 400 with all that is wrong with it: $body", async ({ body, details }) => {
  const { app, entries } = withIdentity({});
  const response = await send(app, { method: "POST", url: "/auth/register", body });
  expect(response.statusCode).toBe(400);
  expect(response.json().error.code).toBe("validation_failed");
  const found = response.json().error.details.map(({ field, code }: Record<string, string>) => [field, code]);
  expect(found).toEqual(details);
  expect(entries).toEqual([]);
});

test.each([
  "a@example.com",
  "a.b+c@sub.example.com",
  "o'hara@example.co",
  "jörg@bücher.example",
  "a@xn--bcher-kva.example",
])("%s may be an e-mail address", async (email) => {
  const { app } = withIdentity({ register: async () => ({ user: ada }) });
  const response = await send(app, { method: "POST", url: "/auth/register", body: { ...account, email } });
  expect(response.statusCode).toBe(201);
});

test.each([
  "",
  "a",
  "a@",
  "@b.co",
  "a@b",
  "a b@c.co",
  "a@b..co",
  "a@-b.co",
  ".a@b.co",
  "a..b@c.co",
  "a@b.co\u0000",
  "a@b@c.co",
])("%j is no e-mail address", async (email) => {
  const { app } = withIdentity({});
  const response = await send(app, { method: "POST", url: "/auth/login", body: { email, password: "x" } });
  expect(response.statusCode).toBe(400);
});

test.each([
  { what: "text", type: "text/plain", status: 415 },
  { what: "a form", type: "application/x-www-form-urlencoded", status: 415 },
  { what: "JSON in another character set", type: "application/json; charset=utf-16", status: 415 },
  { what: "almost JSON", type: "application/json-patch+json", status: 415 },
  { what: "JSON in UTF-8", type: "application/json; charset=UTF-8", status: 200 },
])("$what as body: $status", async ({ type, status }) => {
  const { app } = withIdentity({ login: async () => completedLogin() });
  const body = { email: ada.email, password: "x" };
  const headers = { "content-type": type };
  expect((await send(app, { method: "POST", url: "/auth/login", body, headers })).statusCode).toBe(status);
});

test("a body of 16 KiB is read, one byte more is too large", async () => {
  const { app } = withIdentity({ login: async () => completedLogin() });
  const json = JSON.stringify({ email: ada.email, password: "x" });
  const call = { method: "POST", url: "/auth/login" } as const;
  expect((await send(app, { ...call, body: json.padEnd(16_384) })).statusCode).toBe(200);
  const tooLarge = await send(app, { ...call, body: json.padEnd(16_385) });
  expect([tooLarge.statusCode, tooLarge.json().error.code]).toEqual([413, "payload_too_large"]);
});

test("an unknown query key is refused everywhere", async () => {
  const { app } = withIdentity({});
  const response = await send(app, { url: "/auth/me?admin=true", token: "user-token" });
  expect(response.json().error.details).toEqual([
    { field: "admin", code: "unknown_key", message: "is not known" },
  ]);
});

test.each([
  { body: undefined, ended: [SESSION_ID] },
  { body: {}, ended: [SESSION_ID] },
  { body: { scope: "session" }, ended: [SESSION_ID] },
  { body: { scope: "others" }, ended: ["s1", "s2"] },
  { body: { scope: "all" }, ended: ["s1", "s2", SESSION_ID] },
])("logging out with $body is known here at once", async ({ body, ended }) => {
  const { app, refused } = withSessions(
    { revokeSession: async () => ({ sequence: 1 }) },
    { endOwnSessions: async () => ({ userId: USER_ID, endedSessionIds: ["s1", "s2"] }) },
  );
  const response = await send(app, { method: "POST", url: "/auth/logout", token: "user-token", body });
  expect(response.statusCode).toBe(200);
  expect(refused).toEqual(ended);
});

test("logging out others keeps the caller's session", async () => {
  let asked: unknown;
  const { app } = withSessions(
    {},
    {
      endOwnSessions: async (which) => {
        asked = which;
        return { userId: USER_ID, endedSessionIds: [] };
      },
    },
  );
  await send(app, { method: "POST", url: "/auth/logout", token: "user-token", body: { scope: "others" } });
  expect(asked).toEqual({ userId: USER_ID, exceptSessionId: SESSION_ID });
});

test("a session that could not be ended is not refused here alone", async () => {
  const { app, refused } = withSessions({
    revokeSession: () => Promise.reject(new DomainError("service_unavailable")),
  });
  const response = await send(app, { method: "POST", url: "/auth/logout", token: "user-token" });
  expect(response.statusCode).toBe(503);
  expect(refused).toEqual([]);
});

test("the list of sessions shows which one is the caller's", async () => {
  const at = new Date(0);
  const session = { createdAt: at, lastUsedAt: at, expiresAt: at, ip: "::1", userAgent: "x", amr: ["pwd"] };
  const { app } = withSessions({
    listSessions: async () => ({
      sessions: [
        { id: "s1", ...session },
        { id: SESSION_ID, ...session },
      ],
    }),
  });
  const response = await send(app, { url: "/auth/sessions", token: "user-token" });
  const { sessions } = response.json().data;
  expect(sessions.map(({ current }: { current: boolean }) => current)).toEqual([false, true]);
  expect(Object.keys(sessions[0])).toEqual([
    "id",
    "current",
    "createdAt",
    "lastUsedAt",
    "expiresAt",
    "ip",
    "userAgent",
    "amr",
  ]);
});

test("the trusted devices are listed with the sessions, and the trust in each can be ended", async () => {
  const asked: unknown[] = [];
  const at = new Date(0);
  const time = at.toISOString();
  const device = { id: USER_ID, createdAt: at, lastUsedAt: at, expiresAt: at, userAgent: "x" };
  const { app, entries } = withSessions(
    { listSessions: async () => ({ sessions: [] }) },
    {
      listTrustedDevices: async (which) => {
        asked.push(which);
        return { trustedDevices: [{ ...device, clientIp: "192.0.2.7" }] };
      },
      removeTrustedDevice: async (which) => {
        asked.push(which);
        return {};
      },
    },
  );
  const listed = await send(app, { url: "/auth/sessions", token: "user-token" });
  const times = { createdAt: time, lastUsedAt: time, expiresAt: time };
  expect(listed.json().data).toEqual({
    sessions: [],
    trustedDevices: [{ id: USER_ID, ...times, ip: "192.0.2.7", userAgent: "x" }],
  });
  const url = `/auth/trusted-devices/${SESSION_ID}`;
  const removed = await send(app, { method: "DELETE", url, token: "user-token" });
  expect(removed.statusCode).toBe(200);
  const removal = { userId: USER_ID, trustedDeviceId: SESSION_ID, acr: "urn:gatehouse:acr:1" };
  expect(asked).toEqual([{ userId: USER_ID }, expect.objectContaining(removal)]);
  expect(entries[0]).toMatchObject({ action: "auth.trusted_device_remove" });
});

test("one session can be ended; someone else's is not there", async () => {
  const { app, refused } = withSessions({
    revokeSession: async ({ sessionId }) => {
      if (sessionId !== SESSION_ID) throw new DomainError("not_found");
      return { sequence: 1 };
    },
  });
  const end = (id: string) =>
    send(app, { method: "DELETE", url: `/auth/sessions/${id}`, token: "user-token" });
  expect((await end(SESSION_ID)).statusCode).toBe(200);
  expect((await end(USER_ID)).statusCode).toBe(404);
  expect((await end("1")).json().error.details[0].field).toBe("id");
  expect(refused).toEqual([SESSION_ID]);
});

test("a client whose access token has expired logs out with its refresh token", async () => {
  const ended: unknown[] = [];
  const { app, entries, refused } = withSessions(
    {
      proveRefreshToken: async ({ refreshToken }) => {
        if (refreshToken !== "newest") throw new DomainError("refresh_token_invalid");
        return { userId: USER_ID, sessionId: SESSION_ID };
      },
      revokeSession: async (which) => ({ sequence: ended.push(which) }),
    },
    {
      endOwnSessions: async (which) => {
        ended.push(which);
        return { userId: USER_ID, endedSessionIds: [SESSION_ID] };
      },
    },
  );
  const logOut = (body: object | undefined, token?: string) =>
    send(app, { method: "POST", url: "/auth/logout", body, ...(token !== undefined && { token }) });

  expect((await logOut({ refreshToken: "newest" })).statusCode).toBe(200);
  expect((await logOut({ refreshToken: "newest", scope: "all" }, "expired-token")).statusCode).toBe(200);
  expect(ended).toEqual([
    { sessionId: SESSION_ID, userId: USER_ID, reason: "logout" },
    { userId: USER_ID, exceptSessionId: "" },
  ]);
  expect(refused).toContain(SESSION_ID);
  expect(entries.map(({ kind }) => kind)).toEqual(["intent", "outcome", "intent", "outcome"]);
  for (const { actor } of entries) expect(actor).toEqual({ userId: USER_ID, sessionId: SESSION_ID });

  const refusals = [
    [await logOut({ refreshToken: "older" }), "refresh_token_invalid"],
    [await logOut({}), "token_missing"],
    [await logOut(undefined, "expired-token"), "token_expired"],
    [await logOut({ refreshToken: "newest" }, "revoked-token"), "token_invalid"],
    [await logOut({ refreshToken: "newest" }, "forged"), "token_invalid"],
  ] as const;
  for (const [response, code] of refusals) {
    expect(response.statusCode, code).toBe(401);
    expect(response.json().error.code).toBe(code);
  }
  expect((await logOut({ refreshToken: 7 })).statusCode).toBe(400);
  expect(ended).toHaveLength(2);
  expect(entries).toHaveLength(4);
});
