import { beforeAll, beforeEach, expect, test } from "vitest";
import { databaseOfSystem } from "../../support/database/system-database.ts";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import { ADMIN, readLog, type System } from "../../support/system/system.ts";

const NEW = "an entirely new password";

let system: System;
let api: ApiClient;
let admin: { accessToken: string; user: { id: string } };

beforeAll(async () => {
  system = oneSystem();
  api = apiClient(system.url);
});
beforeEach(async () => {
  // Other flows log the same administrator in, who has three sessions at most.
  admin = await api.logIn(ADMIN);
});
const asAdmin = () => ({ token: admin.accessToken });
const demand = (id: string) =>
  api.call("PATCH", `/admin/users/${id}`, { ...asAdmin(), body: { mustChangePassword: true } });
const logIn = ({ email, password }: { email: string; password: string }) =>
  api.post("/auth/login", { email, password });
const change = (tempToken: string, newPassword = NEW) =>
  api.post("/auth/login/change-password", { tempToken, newPassword });
/** The security events about a user that the audit log has. */
async function eventsOf(id: string) {
  const { body } = await api.get(`/admin/audit?resource=${id}&limit=100`, asAdmin());
  const entries = body.data.entries as { kind: string; action: string; actor: object; reason?: string }[];
  return entries.filter(({ kind }) => kind === "event");
}

test("an administrator asks for another password: access ends, the next login is for that only, then the user is in", async () => {
  const user = await api.newUser();
  const demanded = await demand(user.user.id);
  expect(demanded.body.data.user).toMatchObject({ id: user.user.id, mustChangePassword: true });
  expect((await api.get("/auth/me", { token: user.accessToken })).status).toBe(401);
  expect((await api.post("/auth/refresh", { refreshToken: user.refreshToken })).status).toBe(401);

  expect((await logIn({ email: user.email, password: "wrong" })).body.error.code).toBe("invalid_credentials");
  const asked = await logIn(user);
  expect(asked.status).toBe(200);
  expect(asked.body.data).toEqual({
    requirePasswordChange: true,
    tempToken: expect.stringMatching(/^[\w-]{43}$/),
  });
  expect(asked.headers.get("cache-control")).toBe("no-store");
  expect(asked.headers.get("set-cookie")).toBeNull();
  const { tempToken } = asked.body.data;
  expect((await api.get("/auth/me", { token: tempToken })).status).toBe(401);
  expect((await api.post("/auth/mfa/verify", { tempToken, code: "123456" })).body.error.code).toBe(
    "mfa_token_invalid",
  );

  const same = await change(tempToken, user.password);
  expect([same.status, same.body.error.code]).toEqual([400, "password_unchanged"]);
  const done = await change(tempToken);
  expect(done).toMatchObject({
    status: 200,
    body: { data: { tokenType: "Bearer", user: { id: user.user.id } } },
  });
  expect(done.headers.get("set-cookie")).toMatch(/^gatehouse_device=2\./);
  expect((await api.get("/auth/me", { token: done.body.data.accessToken })).status).toBe(200);
  const again = await change(tempToken, "yet another password");
  expect([again.status, again.body.error.code]).toEqual([401, "password_change_token_invalid"]);
  expect(again.headers.get("www-authenticate")).toContain("invalid_grant");
  await api.logIn({ email: user.email, password: NEW });
  await mailAbout(system, user.email, "Your password was changed");

  await expect
    .poll(async () => (await eventsOf(user.user.id)).map(({ action }) => action).toSorted())
    .toEqual([
      "session.ended",
      "user.login_failed",
      "user.password_change_required",
      "user.password_changed",
      "user.user_registered",
    ]);
  const events = await eventsOf(user.user.id);
  const about = (action: string) => events.find((event) => event.action === action);
  expect(about("user.password_change_required")?.actor).toMatchObject({
    userId: admin.user.id,
    role: "ADMIN",
  });
  expect(about("user.password_changed")?.actor).toMatchObject({ userId: user.user.id });
  expect(about("user.login_failed")).toMatchObject({ reason: "wrong_password" });
  expect(JSON.stringify(events)).not.toContain(user.email);

  const secrets = [tempToken, NEW];
  for (const name of ["gateway", "identity-service", "token-service", "audit-service"]) {
    const log = await readLog(system, name);
    for (const secret of secrets) expect(log).not.toContain(secret);
  }
});

test("a new password by mail does as well, and ends a login that waits", async () => {
  const user = await api.newUser();
  await demand(user.user.id);
  const { tempToken } = (await logIn(user)).body.data;
  await api.post("/auth/forgot-password", { email: user.email });
  const link = linkIn(await mailAbout(system, user.email, "Set a new password"));
  const token = link.searchParams.get("token");
  expect((await api.post("/auth/reset-password", { token, newPassword: NEW })).status).toBe(200);
  expect((await change(tempToken, "yet another password")).status).toBe(401);
  await api.logIn({ email: user.email, password: NEW });
});

test("an erased account leaves nothing of where it was used from in its sessions, nor a name in the security events", async () => {
  const user = await api.newUser();
  const ended = await api.logIn(user);
  await api.post("/auth/logout", {}, { token: ended.accessToken });
  await api.call("DELETE", "/auth/me", { token: user.accessToken, body: { password: user.password } });
  {
    await using database = await databaseOfSystem(system, "token");
    const rows = await database.sql`select ip, user_agent from sessions where user_id = ${user.user.id}`;
    expect(rows).toHaveLength(2);
    for (const row of rows) expect(row).toEqual({ ip: "", user_agent: "" });
  }
  await using database = await databaseOfSystem(system, "identity");
  expect(await database.sql`select from users where id = ${user.user.id}`).toHaveLength(0);
  await expect
    .poll(async () => (await eventsOf(user.user.id)).map(({ action }) => action).toSorted())
    .toEqual(["session.ended", "session.ended", "user.account_deleted", "user.user_registered"]);
});

test("sessions that an administrator ends stay ended", async () => {
  const user = await api.newUser();
  const answer = await api.post(`/admin/users/${user.user.id}/sessions/revoke`, undefined, asAdmin());
  expect(answer).toMatchObject({ status: 200, body: { data: { ended: 1 } } });
  expect((await api.get("/auth/me", { token: user.accessToken })).status).toBe(401);
  await api.logIn(user);
});
