import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { type ApiClient, apiClient } from "../../support/people/api-client.ts";
import { linkIn, mailAbout } from "../../support/people/mailbox.ts";
import { totpApp } from "../../support/people/totp-app.ts";
import { proveAddress } from "../../support/people/verified-user.ts";
import { oneSystem } from "../../support/system/one-system.ts";
import type { System } from "../../support/system/system.ts";

let system: System;
let api: ApiClient;

beforeAll(() => {
  system = oneSystem();
  api = apiClient(system.url);
});

async function provenUser() {
  const user = await api.newUser();
  await proveAddress(system, api, user);
  return user;
}

test.each(["session", "others", "all"])(
  "what was begun in a session that a logout of '%s' ends does not happen",
  async (scope) => {
    const user = await provenUser();
    const { email, password } = user;
    const other = await api.logIn(user);
    const [ending, staying] = scope === "others" ? [other, user] : [user, other];
    const newEmail = `new-${randomUUID()}@example.com`;
    const token = ending.accessToken;
    expect((await api.post("/auth/change-email", { newEmail, password }, { token })).status).toBe(200);
    const mailed = linkIn(await mailAbout(system, newEmail, "Confirm your new e-mail address"));
    const logsOut = scope === "others" ? staying : ending;
    expect((await api.post("/auth/logout", { scope }, { token: logsOut.accessToken })).status).toBe(200);
    const body = { token: mailed.searchParams.get("token"), password };
    expect(await api.post("/auth/confirm-email-change", body)).toMatchObject({
      status: 400,
      body: { error: { code: "verification_token_invalid" } },
    });
    expect((await api.logIn(user)).user).toMatchObject({ email });
  },
);

test("a login that waits for its second factor gives no session after the owner has logged out everywhere", async () => {
  const user = await provenUser();
  const { email, password, accessToken: token } = user;
  const { secret } = (await api.post("/auth/mfa/setup", { password }, { token })).body.data;
  const nextCode = totpApp(secret);
  expect((await api.post("/auth/mfa/enable", { code: await nextCode() }, { token })).status).toBe(200);
  const waiting = await api.post("/auth/login", { email, password });
  const { tempToken } = waiting.body.data;
  expect(tempToken).toBeDefined();
  expect((await api.post("/auth/logout", { scope: "all" }, { token })).status).toBe(200);
  const late = await api.post("/auth/mfa/verify", { tempToken, code: await nextCode() });
  expect(late.status).toBe(401);
});
