import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { changePassword } from "../accounts/change-password.ts";
import { resetPassword } from "../accounts/reset-password.ts";
import { endUserSessions } from "../admin/end-user-sessions.ts";
import { resetUserMfa } from "../admin/reset-user-mfa.ts";
import { setUserAccess } from "../admin/set-user-access.ts";
import { unlockUser } from "../admin/unlock-user.ts";
import { createIdentityRpc } from "../identity-rpc.ts";
import { makeLink } from "../mail/make-link.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { createHashShare } from "../passwords/hash-share.ts";
import { reauthenticate } from "../passwords/reauthenticate.ts";
import {
  ANNA,
  asOperator,
  proveCredentials,
  sessionAt,
  soon,
  startWithAnna,
  type TestDeps,
} from "../testing/test-deps.ts";
import { knownDevice, networkStanding } from "../throttle/known-caller.ts";
import type { Account, NewAccount } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { changePasswordAtLogin } from "./change-password-at-login.ts";
import { completeMfaLogin } from "./complete-mfa-login.ts";
import { deleteEndedLogins } from "./delete-ended-logins.ts";
import { logIn as logInWith } from "./log-in.ts";
import { rememberDevice } from "./remember-device.ts";

const EMAIL = "anna.smith@example.com";
const PASSWORD = "Password123!";
const NEW = "an entirely new password";
const FROM = { clientIp: "192.0.2.1", userAgent: "curl/8" };
/** Where a login comes from: on a device that is not known. */
const NEW_DEVICE = { ...FROM, deviceToken: "" };

let database: TestDatabase;
let deps: TestDeps;
let anna: NewAccount;
let nowMs: number;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, anna } = await startWithAnna(database, { ...ANNA, email: EMAIL }));
  nowMs = deps.now().getTime();
  deps = { ...deps, now: () => new Date(nowMs) };
  await emptyTables(database.ownerSql, "mail_outbox");
});
afterAll(() => database.drop());

const context = () => ({ ...newCallContext({ budgetMs: 60_000 }), caller: "gateway" as const });
const demand = (mustChangePassword = true) =>
  setUserAccess(deps, { userId: anna.id, mustChangePassword }, asOperator());
const logIn = (password = PASSWORD) => logInWith(deps, { email: EMAIL, password, ...NEW_DEVICE }, context());
const change = (tempToken: string, newPassword = NEW) =>
  changePasswordAtLogin(deps, { tempToken, newPassword, ...NEW_DEVICE }, context());
async function asked(password = PASSWORD): Promise<string> {
  const result = await logIn(password);
  if (result.kind !== "passwordChange") throw new Error("not asked for another password");
  return result.tempToken;
}
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
/** As a login reads it. */
async function readAnna(): Promise<Account> {
  const user = await findAccountById(database.sql, anna.id);
  if (user === undefined) throw new Error("no user");
  return user;
}
const account = async () => (await database.ownerSql`select * from users where id = ${anna.id}`)[0];
const mails = async () =>
  (await database.ownerSql`select template from mail_outbox`).map(({ template }) => template);
async function enrolled(): Promise<string> {
  const request = { userId: anna.id, password: PASSWORD, ...FROM };
  await proveCredentials(database.ownerSql, anna.id);
  const { secret } = await beginTotpEnrollment(deps, { ...sessionAt(deps), ...request }, soon());
  const sessionId = deps.newId();
  const code = generateSync({ secret, epoch: Math.floor(nowMs / 1_000) });
  await confirmTotpEnrollment(
    deps,
    { ...sessionAt(deps), userId: anna.id, sessionId, code, ...FROM },
    context(),
  );
  nowMs += 30_000;
  return secret;
}
async function resetLink(): Promise<string> {
  const stored = await transaction(database.sql, (tx) =>
    makeLink(tx, deps, { userId: anna.id, purpose: "reset_password" }),
  );
  return deps.linkTokens.tokenOf(stored.split(":")[1] ?? "");
}

test("a required change ends the sessions, is asked for at the next login, and completes it", async () => {
  await demand();
  expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({
    userId: anna.id,
    reason: "password_change_required",
    exceptSessionId: null,
  });
  const tempToken = await asked();
  expect(tempToken).toMatch(/^[\w-]{43}$/);
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  const rows = JSON.stringify(await database.ownerSql`select * from password_change_challenges`);
  expect(rows).not.toContain(tempToken);

  const authTime = deps.now();
  nowMs += 60_000;
  expect(await change(tempToken)).toMatchObject({
    kind: "completed",
    tokens: { accessToken: "access" },
    user: { id: anna.id },
  });
  expect(deps.tokenService.issueSession.mock.calls.map(([session]) => session)).toEqual([
    { userId: anna.id, role: "USER", amr: ["pwd"], acr: 1, limits: expect.anything(), authTime, ...FROM },
  ]);
  expect(await mails()).toEqual(["password-changed"]);
  expect(await account()).toMatchObject({ must_change_password: false, password_epoch: 1 });
  expect(await codeOf(logIn())).toBe("invalid_credentials");
  expect(await logIn(NEW)).toHaveProperty("tokens");
});

test("a wrong password does not reveal the required change", async () => {
  const before = await logIn("wrong").catch((error: unknown) => error);
  await demand();
  expect(await logIn("wrong").catch((error: unknown) => error)).toEqual(before);
  expect(await database.ownerSql`select * from password_change_challenges`).toEqual([]);
});

test("with a second factor the code comes first, and the session says both", async () => {
  const secret = await enrolled();
  await demand();
  const result = await logIn();
  if (result.kind !== "mfaChallenge") throw new Error("not asked for a code");
  const { tempToken } = result;
  // The challenge of the code does not change a password.
  expect(await codeOf(change(tempToken))).toBe("password_change_token_invalid");
  const code = generateSync({ secret, epoch: Math.floor(nowMs / 1_000) });
  const passed = await completeMfaLogin(deps, { tempToken, code, ...NEW_DEVICE }, context());
  if (passed.kind !== "passwordChange") throw new Error("not asked for another password");
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  await change(passed.tempToken);
  expect(deps.tokenService.issueSession.mock.lastCall?.[0].amr).toEqual(["pwd", "otp", "mfa"]);
});

test("fifty at once: one changes the password and gets a session", async () => {
  await demand();
  const tempToken = await asked();
  const results = await Promise.all(
    Array.from({ length: 50 }, (_, index) => codeOf(change(tempToken, `${NEW} ${index}`))),
  );
  expect(results.filter((code) => code === "done")).toHaveLength(1);
  expect(new Set(results)).toEqual(new Set(["done", "password_change_token_invalid"]));
  expect(deps.tokenService.issueSession).toHaveBeenCalledTimes(1);
  expect(await account()).toMatchObject({ password_epoch: 1 });
  expect(await mails()).toEqual(["password-changed"]);
});

test("two logins that wait at once: the first new password ends the other", async () => {
  await demand();
  const [first, second] = [await asked(), await asked()];
  await change(first);
  expect(await codeOf(change(second, "yet another password"))).toBe("password_change_token_invalid");
});

test("the current password is refused, at most five times, and a violation of the policy costs no try", async () => {
  await demand();
  const tempToken = await asked();
  for (const [newPassword, code] of [
    ["short", "password_too_short"],
    ["password1", "password_too_common"],
    ["my anna.smith password", "password_contains_email"],
    ["x".repeat(129), "validation_failed"],
  ] as const) {
    expect(await codeOf(change(tempToken, newPassword))).toBe(code);
  }
  const verified = deps.argon2.verify.mock.calls.length;
  for (let tries = 0; tries < 5; tries += 1) {
    expect(await codeOf(change(tempToken, PASSWORD))).toBe("password_unchanged");
  }
  expect(await codeOf(change(tempToken))).toBe("password_change_token_invalid");
  expect(deps.argon2.verify.mock.calls.length).toBe(verified + 5);
  expect(await account()).toMatchObject({ must_change_password: true, password_epoch: 0 });
});

test.each(["", "x", "A".repeat(43), "\0".repeat(43)])("%j is no login", async (tempToken) => {
  expect(await codeOf(change(tempToken))).toBe("password_change_token_invalid");
});

test("it ends with its time", async () => {
  await demand();
  const tempToken = await asked();
  nowMs += 300_000;
  expect(await codeOf(change(tempToken))).toBe("password_change_token_invalid");
});

const ENDS: [string, () => Promise<unknown>][] = [
  [
    "a reset by mail",
    async () =>
      resetPassword(deps, { token: await resetLink(), newPassword: "by mail it was set" }, context()),
  ],
  ["a disable", () => setUserAccess(deps, { userId: anna.id, status: "disabled" }, asOperator())],
  ["a change of role", () => setUserAccess(deps, { userId: anna.id, role: "AUDITOR" }, asOperator())],
  ["the wish for another password, repeated", () => demand()],
  ["the wish taken back", () => demand(false)],
  [
    "a change of the password",
    () =>
      changePassword(
        deps,
        {
          ...sessionAt(deps, 2),
          userId: anna.id,
          sessionId: deps.newId(),
          currentPassword: PASSWORD,
          newPassword: "set in a session",
          clientIp: "",
        },
        context(),
      ),
  ],
  ["an erasure", () => database.ownerSql`delete from users`],
];

test.each(ENDS)("it dies by %s", async (_what, end) => {
  await demand();
  const tempToken = await asked();
  await end();
  expect(await codeOf(change(tempToken))).toBe("password_change_token_invalid");
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
});

test.each(ENDS)("it dies by %s also while the new password is hashed", async (_what, end) => {
  await demand();
  const tempToken = await asked();
  const { hash } = deps.passwords;
  const interrupted = {
    ...deps,
    passwords: {
      ...deps.passwords,
      hash: async (...args: Parameters<typeof hash>) => {
        await end();
        return hash(...args);
      },
    },
  };
  const attempt = { tempToken, newPassword: NEW, ...NEW_DEVICE };
  expect(await codeOf(changePasswordAtLogin(interrupted, attempt, context()))).toBe(
    "password_change_token_invalid",
  );
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
});

test("a reset of the second factor ends a login that waits for a code, and one that waits for a password", async () => {
  const secret = await enrolled();
  await demand();
  const result = await logIn();
  if (result.kind !== "mfaChallenge") throw new Error("not asked for a code");
  const code = generateSync({ secret, epoch: Math.floor(nowMs / 1_000) });
  const attempt = { tempToken: result.tempToken, code, ...NEW_DEVICE };
  const passed = await completeMfaLogin(deps, attempt, context());
  if (passed.kind !== "passwordChange") throw new Error("not asked for another password");
  await resetUserMfa(deps, anna.id, asOperator());
  expect(await codeOf(change(passed.tempToken))).toBe("password_change_token_invalid");
});

test("a reset by mail clears the wish, but not with the present password", async () => {
  await demand();
  const token = await resetLink();
  expect(await codeOf(resetPassword(deps, { token, newPassword: PASSWORD }, context()))).toBe(
    "password_unchanged",
  );
  await resetPassword(deps, { token, newPassword: NEW }, context());
  expect(await logIn(NEW)).toHaveProperty("tokens");
});

test("without a required change, a reset may set the current password again", async () => {
  await resetPassword(deps, { token: await resetLink(), newPassword: PASSWORD }, context());
  expect(await logIn()).toHaveProperty("tokens");
});

test("an administrator's end of sessions ends a login under way, and one that waits", async () => {
  await demand();
  const tempToken = await asked();
  await endUserSessions(deps, anna.id, asOperator());
  expect(await codeOf(change(tempToken))).toBe("password_change_token_invalid");
  await demand(false);
  const tokens = {
    accessToken: "a",
    refreshToken: "r",
    expiresInS: 1,
    refreshExpiresInS: 604_800,
    sessionId: "late",
    userId: anna.id,
  };
  deps.tokenService.issueSession.mockImplementationOnce(async () => {
    await endUserSessions(deps, anna.id, asOperator());
    return tokens;
  });
  expect(await codeOf(logIn())).toBe("invalid_credentials");
  expect(deps.tokenService.revokeSession).toHaveBeenCalledOnce();
});

test("an end of sessions between the change and the session takes the session away", async () => {
  await demand();
  const tempToken = await asked();
  const tokens = {
    accessToken: "a",
    refreshToken: "r",
    expiresInS: 1,
    refreshExpiresInS: 604_800,
    sessionId: "late",
    userId: anna.id,
  };
  deps.tokenService.issueSession.mockImplementationOnce(async () => {
    await setUserAccess(deps, { userId: anna.id, status: "disabled" }, asOperator());
    return tokens;
  });
  expect(await codeOf(change(tempToken))).toBe("password_change_token_invalid");
  const which = { sessionId: "late", userId: anna.id, reason: "credentials_changed" };
  expect(deps.tokenService.revokeSession.mock.calls).toEqual([[which, expect.anything()]]);
});

test("a session that began while its account was erased ends as the account's others did", async () => {
  deps.tokenService.issueSession.mockImplementationOnce(async () => {
    await database.ownerSql`delete from users`;
    return {
      accessToken: "a",
      refreshToken: "r",
      expiresInS: 1,
      refreshExpiresInS: 604_800,
      sessionId: "late",
      userId: anna.id,
    };
  });
  expect(await codeOf(logIn())).toBe("invalid_credentials");
  const which = { sessionId: "late", userId: anna.id, reason: "account_deleted" };
  expect(deps.tokenService.revokeSession).toHaveBeenCalledWith(which, expect.anything());
});

test("an unlock clears failures and leaves the rest as it is", async () => {
  const rpc = createIdentityRpc(deps);
  const attempt = (password: string) =>
    rpc.login({ email: EMAIL, password, ...FROM, deviceToken: "" }, context());
  for (let round = 0; round < 5; round += 1) await codeOf(attempt("wrong"));
  expect(await codeOf(attempt(PASSWORD))).toBe("invalid_credentials");
  await database.ownerSql`update users set status = 'disabled'`;
  await unlockUser(deps, anna.id, asOperator());
  expect(await account()).toMatchObject({ status: "disabled" });
  await database.ownerSql`update users set status = 'active'`;
  expect(await codeOf(attempt(PASSWORD))).toBe("done");
  expect(await codeOf(unlockUser(deps, deps.newId(), asOperator()))).toBe("not_found");
});

test("a new password makes every device unknown, however it was set", async () => {
  const origin = { ...FROM, deviceToken: "" };
  for (const set of [
    () => ENDS[0]?.[1](),
    async () => {
      await demand();
      await change(await asked("by mail it was set"));
    },
  ]) {
    const deviceToken = await rememberDevice(deps, { ...origin, user: await readAnna() });
    const isKnown = async () => (await knownDevice(deps, deviceToken, EMAIL)) !== undefined;
    expect(await isKnown()).toBe(true);
    await set();
    expect(await isKnown()).toBe(false);
    const next = await rememberDevice(deps, { ...origin, user: await readAnna(), deviceToken });
    expect(deps.deviceTokens.read(next)?.id).not.toBe(deps.deviceTokens.read(deviceToken)?.id);
  }
  expect(await mails()).toContain("new-device");
});

test("a login with the old password that a reset overtakes makes neither its device nor its network known", async () => {
  const before = await readAnna();
  await ENDS[0]?.[1]();
  const deviceToken = await rememberDevice(deps, { user: before, ...FROM, deviceToken: "" });
  expect(deps.deviceTokens.read(deviceToken)).toMatchObject({ userId: anna.id });
  expect(await knownDevice(deps, deviceToken, EMAIL)).toBeUndefined();
  expect(await networkStanding(deps, EMAIL, FROM.clientIp)).toBe("used_network");
});

test("the owner's old device is slowed down like a stranger's after a new password", async () => {
  const rpc = createIdentityRpc(deps);
  const deviceToken = await rememberDevice(deps, { user: await readAnna(), ...FROM, deviceToken: "" });
  const attempt = (password: string, from: object) =>
    codeOf(rpc.login({ email: EMAIL, password, ...FROM, deviceToken: "", ...from }, context()));
  const hammer = async (clientIp: string) => {
    for (let round = 0; round < 6; round += 1) await attempt("wrong", { clientIp });
  };
  await hammer("192.0.2.7");
  expect(await attempt(PASSWORD, { clientIp: "203.0.113.1", deviceToken })).toBe("done");
  await ENDS[0]?.[1]();
  await hammer("192.0.2.8");
  expect(await attempt("by mail it was set", { clientIp: "203.0.113.2", deviceToken })).toBe(
    "invalid_credentials",
  );
});

test("a user who is erased while logging in gets no mail afterwards", async () => {
  const user = await readAnna();
  await rememberDevice(deps, { user, ...FROM, deviceToken: "" });
  let erased: Promise<unknown> | undefined;
  await transaction(database.ownerSql, async (tx) => {
    await tx`delete from mail_outbox where user_id = ${anna.id}`;
    await tx`delete from users where id = ${anna.id}`;
    erased = rememberDevice(deps, { user, ...FROM, userAgent: "Firefox/1", deviceToken: "" });
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBe(1);
  });
  expect(await erased).toBe("");
  expect(await mails()).toEqual([]);
});

test("one network has its share of the hashes here too, with a session or without", async () => {
  await demand();
  const tempToken = await asked();
  deps.hashShare = createHashShare({ maxOfNetwork: 0, maxOfStrangers: 1_000 });
  expect(await codeOf(change(tempToken))).toBe("busy");
  const again = { userId: anna.id, password: PASSWORD, ...FROM };
  expect(await codeOf(reauthenticate(deps, again, soon()))).toBe("busy");
  const own = { userId: anna.id, sessionId: deps.newId(), currentPassword: PASSWORD, newPassword: NEW };
  const share = createHashShare({ maxOfNetwork: 1, maxOfStrangers: 1_000 });
  // The present password is within the share, the new one is not.
  let taken = 0;
  deps.hashShare = {
    run: (ip, work) =>
      (taken++ === 0 ? share : createHashShare({ maxOfNetwork: 0, maxOfStrangers: 1_000 })).run(ip, work),
  };
  expect(await codeOf(changePassword(deps, { ...sessionAt(deps, 2), ...own, ...FROM }, context()))).toBe(
    "busy",
  );
});

test("a new password that could not be hashed costs no try", async () => {
  await demand();
  const tempToken = await asked();
  const busy = { ...deps, hashShare: { run: () => Promise.reject(new DomainError("busy")) } };
  const attempt = { tempToken, newPassword: NEW, ...NEW_DEVICE };
  for (let tries = 0; tries < 10; tries += 1)
    expect(await codeOf(changePasswordAtLogin(busy, attempt, context()))).toBe("busy");
  for (let tries = 0; tries < 4; tries += 1)
    expect(await codeOf(change(tempToken, PASSWORD))).toBe("password_unchanged");
  expect(await codeOf(change(tempToken))).toBe("done");
});

test("five look-ups of breaches for a login, and no more", async () => {
  await demand();
  const tempToken = await asked();
  let asks = 0;
  const isBreached = async () => {
    asks += 1;
    return true;
  };
  const passwordPolicy = { ...deps.passwordPolicy, breaches: [{ isBreached }] };
  const attempt = () =>
    changePasswordAtLogin(
      { ...deps, passwordPolicy },
      { tempToken, newPassword: NEW, ...NEW_DEVICE },
      context(),
    );
  const codes = await Promise.all(Array.from({ length: 20 }, () => codeOf(attempt())));
  expect(codes.filter((code) => code === "password_too_common")).toHaveLength(5);
  expect(codes.filter((code) => code === "password_change_token_invalid")).toHaveLength(15);
  expect(asks).toBe(5);
});

test("the owner's mail about the change is sent at once, also while token-service is away", async () => {
  await demand();
  const tempToken = await asked();
  deps.tokenService.revokeUserSessions.mockRejectedValue(new DomainError("service_unavailable"));
  deps.wakeMailWorker.mockClear();
  expect(await codeOf(change(tempToken))).toBe("service_unavailable");
  expect(deps.wakeMailWorker).toHaveBeenCalledOnce();
});

test("the change ends earlier sessions and is recorded with its origin", async () => {
  await demand();
  await change(await asked());
  expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({
    userId: anna.id,
    reason: "password_changed",
    exceptSessionId: null,
  });
  const changed = await database.ownerSql`
    select actor_id, ip, user_agent from security_events where type = 'password_changed'`;
  expect(changed).toEqual([{ actor_id: anna.id, ip: FROM.clientIp, user_agent: FROM.userAgent }]);
});

test.each([
  ["address", () => database.ownerSql`update users set email = 'other@example.com'`],
  ["password's hash", () => database.ownerSql`update users set password_hash = null`],
])(
  "it dies by another %s while the new password is hashed: the policy looked at the earlier one",
  async (_what, alter) => {
    await demand();
    const tempToken = await asked();
    const { hash } = deps.passwords;
    deps.passwords.hash = async (...args) => {
      await alter();
      return hash(...args);
    };
    expect(await codeOf(change(tempToken))).toBe("password_change_token_invalid");
    expect(await account()).toMatchObject({ must_change_password: true });
  },
);

test("while token-service is away the new password is set and the login is unavailable, not refused", async () => {
  await demand();
  const tempToken = await asked();
  deps.tokenService.issueSession.mockRejectedValueOnce(new DomainError("service_unavailable"));
  expect(await codeOf(change(tempToken))).toBe("service_unavailable");
  expect(await logIn(NEW)).toHaveProperty("tokens");
});

test("a new password that is refused is named as the request names it", async () => {
  await demand();
  await expect(change(await asked(), "x".repeat(129))).rejects.toMatchObject({
    fields: [{ field: "newPassword", code: "too_long" }],
  });
});

test("waiting logins that ended a day ago are deleted by the clean-up, not by a login", async () => {
  await demand();
  await asked();
  const waiting = async () => (await database.ownerSql`select from password_change_challenges`).length;
  nowMs += 24 * 3_600_000 + 300_000;
  await deleteEndedLogins(deps);
  await asked();
  expect(await waiting()).toBe(2);
  nowMs += 1;
  await asked();
  expect(await waiting()).toBe(3);
  await deleteEndedLogins(deps);
  expect(await waiting()).toBe(2);
});
