import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import type { Backends } from "../backends/backends.ts";
import { ada, adaJson, SESSION_ID, send, testGateway, USER_ID } from "../testing/test-gateway.ts";

const ended = { userId: USER_ID, endedSessionIds: ["s1", "s2"] };
const password = "correct horse";

/** A gateway whose accounts answer as a test sets them, and what they were asked. */
function withAccounts(accounts: Partial<Backends["identity"]>) {
  const asked: unknown[][] = [];
  const noted = Object.fromEntries(
    Object.entries(accounts).map(([name, answer]) => [
      name,
      (...args: unknown[]) => {
        asked.push([name, ...args.slice(0, -1)]);
        return (answer as (...args: unknown[]) => unknown)(...args);
      },
    ]),
  );
  return { ...testGateway({ identity: noted }), asked };
}

test.each([
  ["/auth/forgot-password", "forgotPassword", "auth.forgot_password"],
  ["/auth/resend-verification", "resendVerification", "auth.resend_verification"],
] as const)(
  "%s has one answer, and the audit log the address that was claimed",
  async (url, method, action) => {
    const { app, asked, entries } = withAccounts({ [method]: async () => ({}) });
    const answers = await Promise.all(
      ["ada@example.com", "nobody@example.com"].map((email) =>
        send(app, {
          method: "POST",
          url,
          body: { email },
          headers: { cookie: "gatehouse_device=2.a.b.0.1.p" },
        }),
      ),
    );
    const [known, unknown] = answers.map(({ statusCode, headers, body }) => {
      const { "x-request-id": _, "ratelimit-remaining": _left, "ratelimit-reset": _reset, ...rest } = headers;
      return { statusCode, rest: { ...rest, date: "" }, body };
    });
    expect(known).toEqual(unknown);
    expect(known?.statusCode).toBe(200);
    expect(asked).toEqual([
      [method, { email: "ada@example.com", clientIp: "127.0.0.1", deviceToken: "2.a.b.0.1.p" }],
      [method, { email: "nobody@example.com", clientIp: "127.0.0.1", deviceToken: "2.a.b.0.1.p" }],
    ]);
    expect(entries[0]).toMatchObject({ kind: "intent", action, actor: { claimedEmail: "ada@example.com" } });
  },
);

/** Whose change it is, and what their session has proven. */
const OWNER = {
  userId: USER_ID,
  sessionId: SESSION_ID,
  clientIp: "127.0.0.1",
  acr: "urn:gatehouse:acr:1",
  authTime: expect.any(Date),
};

test("changing the password keeps the caller's session and refuses the ended ones here at once", async () => {
  const { app, asked, refused } = withAccounts({ changePassword: async () => ended });
  const body = { currentPassword: password, newPassword: "another horse" };
  const response = await send(app, {
    method: "POST",
    url: "/auth/change-password",
    token: "user-token",
    body,
  });
  expect([response.statusCode, response.json().data]).toEqual([200, {}]);
  expect(asked).toEqual([["changePassword", expect.objectContaining({ ...body, ...OWNER })]]);
  expect(refused).toEqual(["s1", "s2"]);
});

test("a wrong password is 401 and refuses no session", async () => {
  const { app, refused } = withAccounts({
    deleteAccount: () => Promise.reject(new DomainError("invalid_credentials")),
  });
  const response = await send(app, {
    method: "DELETE",
    url: "/auth/me",
    token: "user-token",
    body: { password },
  });
  expect([response.statusCode, response.json().error.code]).toEqual([401, "invalid_credentials"]);
  expect(refused).toEqual([]);
});

test("a deleted account's session is refused even without a revocation", async () => {
  const { app, refused } = withAccounts({ deleteAccount: async () => ({ ...ended, endedSessionIds: [] }) });
  const response = await send(app, {
    method: "DELETE",
    url: "/auth/me",
    token: "user-token",
    body: { password },
  });
  expect(response.statusCode).toBe(200);
  expect(refused).toEqual([SESSION_ID]);
});

test("the last administrator is a conflict", async () => {
  const { app } = withAccounts({ deleteAccount: () => Promise.reject(new DomainError("last_admin")) });
  const response = await send(app, {
    method: "DELETE",
    url: "/auth/me",
    token: "admin-token",
    body: { password },
  });
  expect([response.statusCode, response.json().error.code]).toEqual([409, "last_admin"]);
});

test("a profile changes by what is named, and an empty change is none", async () => {
  const { app, asked } = withAccounts({ updateProfile: async () => ({ user: ada }) });
  for (const body of [{ firstName: "Ada" }, {}]) {
    const response = await send(app, { method: "PATCH", url: "/auth/me", token: "user-token", body });
    expect(response.json().data).toEqual({ user: adaJson });
  }
  expect(asked).toEqual([
    ["updateProfile", { firstName: "Ada", userId: USER_ID }],
    ["updateProfile", { userId: USER_ID }],
  ]);
});

test("an e-mail or a role is no part of a profile", async () => {
  const { app } = withAccounts({});
  const body = { email: "a@example.com", role: "ADMIN", firstName: null };
  const response = await send(app, { method: "PATCH", url: "/auth/me", token: "user-token", body });
  expect(
    response
      .json()
      .error.details.map(({ field }: { field: string }) => field)
      .sort(),
  ).toEqual(["email", "firstName", "role"]);
});

test("a change of address says the same whatever becomes of it", async () => {
  const { app, asked } = withAccounts({ changeEmail: async () => ({}) });
  const body = { newEmail: "new@example.com", password };
  const response = await send(app, { method: "POST", url: "/auth/change-email", token: "user-token", body });
  expect([response.statusCode, response.json().data]).toEqual([200, {}]);
  expect(asked).toEqual([["changeEmail", expect.objectContaining({ ...body, ...OWNER })]]);
});

test.each([
  ["POST", "/auth/change-password"],
  ["PATCH", "/auth/me"],
  ["DELETE", "/auth/me"],
  ["POST", "/auth/change-email"],
] as const)("%s %s is for who is logged in", async (method, url) => {
  const { app } = withAccounts({});
  expect((await send(app, { method, url, body: {} })).json().error.code).toBe("token_missing");
});
