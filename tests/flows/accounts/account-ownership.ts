import { generateSync } from "otplib";
import { beforeAll, expect, test } from "vitest";
import { type ApiClient, apiClient, patientFetch } from "../../support/people/api-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { proveAddress, verificationToken } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import type { System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});
const OWN = "the owner's password 42";
const CLAIMED = "Earlier access to your account was removed";
type Registered = Awaited<ReturnType<ApiClient["newUser"]>>;

const setUpMfa = (user: Registered) =>
  api.post("/auth/mfa/setup", { password: user.password }, { token: user.accessToken });
const link = (user: Registered) =>
  api.post("/auth/me/identities/demo", { password: user.password }, { token: user.accessToken });
const pressed = (path: string, fields: Record<string, string>) =>
  patientFetch(system.url + path, { method: "POST", body: new URLSearchParams(fields) });

/** Nothing that whoever registered had works any more. */
async function expectOut(attacker: Registered): Promise<void> {
  const { email, password, accessToken, refreshToken } = attacker;
  expect((await api.get("/auth/me", { token: accessToken })).status).toBe(401);
  expect((await api.post("/auth/refresh", { refreshToken })).status).toBe(401);
  expect((await api.post("/auth/login", { email, password })).status).toBe(401);
  expect((await setUpMfa(attacker)).status).toBe(401);
  expect((await link(attacker)).status).toBe(401);
}
async function resetTo(email: string, newPassword: string): Promise<void> {
  await api.post("/auth/forgot-password", { email });
  const token = linkIn(await mailAbout(system, email, "Set a new password")).searchParams.get("token");
  expect((await api.post("/auth/reset-password", { token, newPassword })).status).toBe(200);
}

test("who registers the address of somebody else sets up nothing, and is out after the click and the reset of its owner", async () => {
  const attacker = await api.newUser();
  const refusals = async () => [await setUpMfa(attacker), await link(attacker)];
  for (const isVerified of [false, true]) {
    if (isVerified) {
      const token = await verificationToken(system, attacker.email);
      expect((await pressed("/auth/verify-email", { token, password: "" })).status).toBe(200);
      const me = await api.get("/auth/me", { token: attacker.accessToken });
      expect(me.body.data.user.emailVerified).toBe(true);
    }
    for (const { status, body } of await refusals()) {
      expect([status, body.error.code]).toEqual([403, "email_not_verified"]);
    }
  }
  await resetTo(attacker.email, OWN);
  await expectOut(attacker);
  const owner = await api.logIn({ email: attacker.email, password: OWN });
  expect(owner.user.id).toBe(attacker.user.id);
});

test("the mail's page takes the account from whoever made it, who is out at once", async () => {
  const attacker = await api.newUser();
  const token = await verificationToken(system, attacker.email);
  const page = await (await patientFetch(`${system.url}/auth/verify-email?token=${token}`)).text();
  expect(page).toContain('<form method="post" action="/auth/disown-account">');
  const done = await pressed("/auth/disown-account", { token });
  expect([done.status, await done.text()]).toEqual([200, expect.stringContaining("can no longer be used")]);
  await expectOut(attacker);
  await mailAbout(system, attacker.email, CLAIMED);
  await resetTo(attacker.email, OWN);
  await api.logIn({ email: attacker.email, password: OWN });
});

test("a session proves the credentials as a password does; then a factor may be set up, and stays at a reset", async () => {
  const owner = await api.newUser();
  const stranger = await api.newUser();
  const token = await verificationToken(system, owner.email);
  const verify = (body: object, bearer?: string) =>
    api.post("/auth/verify-email", { token, ...body }, bearer === undefined ? {} : { token: bearer });
  for (const refused of [
    await verify({ password: "not the password" }),
    await verify({}, stranger.accessToken),
    await verify({}, "no.access.token"),
  ]) {
    expect([refused.status, refused.body.error.code]).toEqual([401, "invalid_credentials"]);
  }
  expect((await verify({}, owner.accessToken)).status).toBe(200);
  const { secret } = (await setUpMfa(owner)).body.data;
  const code = generateSync({ secret });
  expect((await api.post("/auth/mfa/enable", { code }, { token: owner.accessToken })).status).toBe(200);
  await resetTo(owner.email, OWN);
  const login = await api.post("/auth/login", { email: owner.email, password: OWN });
  expect(login.body.data.requireMfa).toBe(true);
});

test("a new address is not taken by a click; with the session of the account it is", async () => {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  const newEmail = `new-${user.email}`;
  const { accessToken: token, password } = user;
  expect((await api.post("/auth/change-email", { newEmail, password }, { token })).status).toBe(200);
  const url = linkIn(await mailAbout(system, newEmail, "Confirm your new e-mail address"));
  const fields = { token: url.searchParams.get("token") ?? "" };
  expect((await pressed("/auth/confirm-email-change", fields)).status).toBe(403);
  const wrong = await pressed("/auth/confirm-email-change", { ...fields, password: "not the password" });
  expect([wrong.status, await wrong.text()]).toEqual([401, expect.stringContaining('role="alert"')]);
  const done = await api.post("/auth/confirm-email-change", fields, { token });
  expect([done.status, done.body.data.user.email]).toEqual([200, newEmail]);
});
