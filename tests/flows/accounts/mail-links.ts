import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { type ApiClient, apiClient, patientFetch } from "../../support/people/api-client.ts";
import { linkIn, mailAbout, mailsTo } from "../../support/people/mailbox.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, readLog, type System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;
/** Every link's token that a test has seen. */
const seen: string[] = [];

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

const CONFIRM = "Confirm your e-mail address";
const RESET = "Set a new password";
const NEW = "an entirely new password";

async function linkAbout(address: string, subject: string, count = 1): Promise<URL> {
  const link = linkIn(await mailAbout(system, address, subject, count));
  expect(link.origin).toBe(system.url);
  seen.push(link.searchParams.get("token") ?? "");
  return link;
}

/** What a browser does with a link: opens it, and presses the button. */
async function follow(link: URL, fields: Record<string, string> = {}) {
  const page = await patientFetch(link);
  expect(page.status).toBe(200);
  const html = await page.text();
  const [, action = ""] = /<form method="post" action="([^"]+)">/.exec(html) ?? [];
  const [, token = ""] = /name="token" value="([^"]+)"/.exec(html) ?? [];
  return patientFetch(new URL(action, link), {
    method: "POST",
    body: new URLSearchParams({ token, ...fields }),
  });
}

const tokenOf = (link: URL) => link.searchParams.get("token") ?? "";
const emailVerified = async (token: string) =>
  (await api.get("/auth/me", { token })).body.data.user.emailVerified;

test("a registration's link proves the address when its button is pressed, not when a scanner opens it", async () => {
  const user = await api.newUser();
  const link = await linkAbout(user.email, CONFIRM);
  expect(link.pathname).toBe("/auth/verify-email");
  for (const method of ["GET", "HEAD", "GET", "HEAD"]) {
    expect((await patientFetch(link, { method })).status).toBe(200);
  }
  expect(await emailVerified(user.accessToken)).toBe(false);
  const done = await follow(link);
  expect([done.status, done.headers.get("content-type")]).toEqual([200, "text/html; charset=utf-8"]);
  expect(await emailVerified(user.accessToken)).toBe(true);
  expect((await follow(link)).status).toBe(400);
  expect(await api.post("/auth/verify-email", { token: tokenOf(link) })).toMatchObject({
    status: 400,
    body: { error: { code: "verification_token_invalid" } },
  });
});

test("verifying by JSON gives the user; a resent link takes the place of the first", async () => {
  const user = await api.newUser();
  const first = await linkAbout(user.email, CONFIRM);
  expect((await api.post("/auth/resend-verification", { email: user.email })).status).toBe(200);
  const second = await linkAbout(user.email, CONFIRM, 2);
  expect((await api.post("/auth/verify-email", { token: tokenOf(first) })).status).toBe(400);
  expect(await api.post("/auth/verify-email", { token: tokenOf(second) })).toMatchObject({
    status: 200,
    body: { data: { user: { id: user.user.id, emailVerified: true } } },
  });
});

test("a reset by mail: the old password, the old tokens and the link are dead, the new password works", async () => {
  const user = await api.newUser();
  const other = await api.logIn(user);
  expect((await api.get("/auth/me", { token: other.accessToken })).status).toBe(200);
  expect((await api.post("/auth/forgot-password", { email: user.email.toUpperCase() })).status).toBe(200);
  const link = await linkAbout(user.email, RESET);

  const refused = await follow(link, { newPassword: "password1" });
  expect([refused.status, await refused.text()]).toEqual([400, expect.stringContaining('role="alert"')]);
  expect((await follow(link, { newPassword: NEW })).status).toBe(200);

  for (const { accessToken, refreshToken } of [user, other]) {
    expect((await api.get("/auth/me", { token: accessToken })).body.error.code).toBe("token_invalid");
    expect((await api.post("/auth/refresh", { refreshToken })).body.error.code).toBe("refresh_token_invalid");
  }
  expect(await api.post("/auth/login", { email: user.email, password: user.password })).toMatchObject({
    status: 401,
    body: { error: { code: "invalid_credentials" } },
  });
  const { accessToken } = await api.logIn({ email: user.email, password: NEW });
  expect((await api.get("/auth/me", { token: accessToken })).status).toBe(200);
  expect((await follow(link, { newPassword: "yet another password" })).status).toBe(400);
  await mailAbout(system, user.email, "Your password was changed");
});

test("fifty uses of a reset link at once: one succeeds", async () => {
  const user = await api.newUser();
  await api.post("/auth/forgot-password", { email: user.email });
  const token = tokenOf(await linkAbout(user.email, RESET));
  // Repetitions would use up the network's limit.
  const impatient = apiClient(system.url, { isPatient: false });
  const uses = Array.from({ length: 50 }, (_, index) =>
    impatient.post("/auth/reset-password", { token, newPassword: `the new password ${index}` }),
  );
  const answers = await Promise.all(uses);
  const won = answers.filter(({ status }) => status === 200);
  expect(won.length).toBeLessThanOrEqual(1);
  for (const { status, body } of answers) {
    if (status !== 200)
      expect(["reset_token_invalid", "busy", "service_unavailable", "too_many_requests"]).toContain(
        body.error.code,
      );
  }
  // On a slow machine none may be done by its deadline: then the link is good still, or one was done and its answer was late.
  const newPassword = `the new password ${answers.findIndex(({ status }) => status === 200)}`;
  const again = await api.post("/auth/reset-password", { token, newPassword });
  if (won.length === 1) expect(again.status).toBe(400);
  else expect([200, 400]).toContain(again.status);
  if (won.length === 1 || again.status === 200) await api.logIn({ email: user.email, password: newPassword });
});

test("asking for a known and for an unknown address gets the same bytes, and the unknown one no mail", async () => {
  const user = await api.newUser();
  const unknown = `nobody-${randomUUID()}@example.com`;
  for (const path of ["/auth/forgot-password", "/auth/resend-verification"]) {
    const answers = await Promise.all([user.email, unknown].map((email) => api.post(path, { email })));
    const [one, two] = answers.map(({ status, body, headers }) => {
      // These count the calls of an address, whatever they ask for.
      const kept = [...headers].filter(([name]) => !/^(?:x-request-id|date|ratelimit-.*)$/.test(name));
      return { status, body, headers: kept };
    });
    expect(one).toEqual(two);
    expect(one?.status).toBe(200);
  }
  await linkAbout(user.email, RESET);
  expect(await mailsTo(system, unknown)).toEqual([]);
});

test("a new password ends the other sessions, and needs the present one", async () => {
  const user = await api.newUser();
  const other = await api.logIn(user);
  const token = user.accessToken;
  const change = (currentPassword: string) =>
    api.post("/auth/change-password", { currentPassword, newPassword: NEW }, { token });
  expect((await change("not the password")).body.error.code).toBe("invalid_credentials");
  expect((await change(user.password)).status).toBe(200);
  expect((await api.get("/auth/me", { token })).status).toBe(200);
  expect((await api.get("/auth/me", { token: other.accessToken })).status).toBe(401);
  expect((await api.post("/auth/refresh", { refreshToken: other.refreshToken })).status).toBe(401);
  await api.logIn({ email: user.email, password: NEW });
  await mailAbout(system, user.email, "Your password was changed");
});

test("an address changes by a link to the new one, and back by a link to the old one", async () => {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  const token = user.accessToken;
  const newEmail = `new-${randomUUID()}@example.com`;
  const asked = await api.post("/auth/change-email", { newEmail, password: user.password }, { token });
  expect(asked.status).toBe(200);
  const confirm = await linkAbout(newEmail, "Confirm your new e-mail address");
  expect((await api.get("/auth/me", { token })).body.data.user.email).toBe(user.email);
  expect((await follow(confirm, { password: user.password })).status).toBe(200);
  expect((await api.get("/auth/me", { token })).body.data.user).toMatchObject({
    email: newEmail,
    emailVerified: true,
  });
  expect((await api.post("/auth/login", { email: user.email, password: user.password })).status).toBe(401);

  const undo = await linkAbout(user.email, "Your e-mail address was changed");
  expect((await follow(undo)).status).toBe(200);
  expect((await api.get("/auth/me", { token })).status).toBe(401);
  expect((await api.post("/auth/login", { email: user.email, password: user.password })).status).toBe(401);
  const reset = await linkAbout(user.email, "Set a new password");
  const newPassword = "an entirely new password";
  const resetToken = reset.searchParams.get("token");
  expect((await api.post("/auth/reset-password", { token: resetToken, newPassword })).status).toBe(200);
  await api.logIn({ email: user.email, password: newPassword });
  for (const used of [confirm, undo]) expect((await follow(used)).status).toBe(400);
});

test("wanting an address that has an account says the same, and only its owner gets a mail", async () => {
  const user = await api.newUser();
  const owner = await api.newUser();
  const want = (newEmail: string) =>
    api.post("/auth/change-email", { newEmail, password: user.password }, { token: user.accessToken });
  const [taken, free] = [await want(owner.email), await want(`free-${randomUUID()}@example.com`)];
  expect([taken.status, taken.body]).toEqual([free.status, free.body]);
  await mailAbout(system, owner.email, "Someone tried to use your e-mail address");
});

test("a profile changes; an account is deleted with its sessions, and its address is free again", async () => {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  const token = user.accessToken;
  const changed = await api.call("PATCH", "/auth/me", { token, body: { firstName: "Grace" } });
  expect(changed.body.data.user).toMatchObject({ firstName: "Grace", lastName: "Lovelace" });
  const erase = (password: string) => api.call("DELETE", "/auth/me", { token, body: { password } });
  expect((await erase("not the password")).status).toBe(401);
  expect((await erase(user.password)).status).toBe(200);
  expect((await api.get("/auth/me", { token })).status).toBe(401);
  expect((await api.post("/auth/refresh", { refreshToken: user.refreshToken })).status).toBe(401);
  const { email, password } = user;
  expect((await api.post("/auth/login", { email, password })).status).toBe(401);
  const again = { email, password, firstName: "Ada", lastName: "Lovelace" };
  expect((await api.post("/auth/register", again)).status).toBe(201);
});

test("the only administrator cannot be deleted", async () => {
  const { accessToken: token } = await api.logIn(ADMIN);
  const answer = await api.call("DELETE", "/auth/me", { token, body: { password: ADMIN.password } });
  expect(answer).toMatchObject({ status: 409, body: { error: { code: "last_admin" } } });
});

test("the audit log names who asked, and no log has a link's token", async () => {
  const user = await api.newUser();
  const asked = await api.post("/auth/forgot-password", { email: user.email });
  await linkAbout(user.email, RESET);
  const { accessToken: token } = await api.logIn(ADMIN);
  const entries = async () => {
    const path = `/admin/audit?requestId=${asked.headers.get("x-request-id")}`;
    return (await api.get(path, { token })).body.data.entries;
  };
  await expect.poll(async () => (await entries()).length).toBe(2);
  expect((await entries())[0]).toMatchObject({
    action: "auth.forgot_password",
    actor: { claimedEmail: user.email },
  });
  const names = ["gateway", "identity-service", "token-service", "audit-service", "postgres"];
  const logs = (await Promise.all(names.map((name) => readLog(system, name)))).join("\n");
  expect(seen.length).toBeGreaterThan(3);
  for (const secret of seen) expect(logs.includes(secret)).toBe(false);
});
