import { randomBytes } from "node:crypto";
import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { changePassword } from "../accounts/change-password.ts";
import { getOwnAccount } from "../accounts/own-account.ts";
import { register } from "../accounts/register.ts";
import { undoAccessChange } from "../accounts/undo-change.ts";
import { beginMfaChallenge } from "../login/complete-login.ts";
import { completeMfaLogin } from "../login/complete-mfa-login.ts";
import { deleteEndedLogins } from "../login/delete-ended-logins.ts";
import { logIn as logInWith } from "../login/log-in.ts";
import { rememberDevice } from "../login/remember-device.ts";
import { endOwnSessions } from "../sessions/end-sessions.ts";
import {
  ANNA,
  newTestKey,
  proveCredentials,
  sessionAt,
  soon,
  startWithAnna,
  type TestDeps,
  testDeps,
} from "../testing/test-deps.ts";
import { createDeviceTokens } from "../throttle/device-token.ts";
import { deleteOldWrongCodes } from "../throttle/mfa-tries.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { getAccount } from "../users/get-account.ts";
import { beginTotpEnrollment } from "./begin-totp-enrollment.ts";
import { type CodeSource, checkMfaCode } from "./check-mfa-code.ts";
import { confirmTotpEnrollment } from "./confirm-totp-enrollment.ts";
import { disableTotp } from "./disable-totp.ts";
import { regenerateRecoveryCodes } from "./give-recovery-codes.ts";
import { deleteTotp, type FirstFactor, lockReencryption } from "./mfa-store.ts";
import { createReencryption, reencryptTotpSecrets } from "./reencrypt-totp-secrets.ts";
import { openTotpSecret, sealTotpSecret } from "./totp-secret.ts";

const EMAIL = "anna.smith@example.com";
const PASSWORD = "Password123!";
const FROM = { clientIp: "192.0.2.1", userAgent: "curl/8" };
/** Where a login comes from: on a device that is not known. */
const NEW_DEVICE = { ...FROM, deviceToken: "" };
const SESSION = "019a0000-0000-7000-8000-00000000000a";
const MINUTE_S = 60;

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let nowMs: number;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, userId } = await startWithAnna(database, { ...ANNA, email: EMAIL }));
  nowMs = deps.now().getTime();
  const now = () => new Date(nowMs);
  deps = { ...deps, now, deviceTokens: createDeviceTokens(randomBytes(32), now) };
  await proveCredentials(database.ownerSql, userId);
  await emptyTables(database.ownerSql, "mail_outbox");
});
afterAll(() => database.drop());

const context = () => newCallContext({ budgetMs: 60_000 });
const pass = (seconds: number) => {
  nowMs += seconds * 1_000;
};
const codeOf = (secret: string, shiftS = 0) =>
  generateSync({ secret, epoch: Math.floor(nowMs / 1_000) + shiftS });
/** No code of any step, nor, but once in 2^80, a recovery code. */
const WRONG = "AAAA-AAAA-AAAA-AAAA";

const setUp = (password = PASSWORD) =>
  beginTotpEnrollment(deps, { ...sessionAt(deps, 2), userId, password, ...FROM }, soon());
const enable = (code: string) =>
  confirmTotpEnrollment(
    deps,
    { ...sessionAt(deps, 2), userId, sessionId: SESSION, code, ...FROM },
    context(),
  );
const disable = (code: string, password = PASSWORD) =>
  disableTotp(
    deps,
    { ...sessionAt(deps, 2), userId, sessionId: SESSION, password, code, ...FROM },
    context(),
  );
const renew = (code: string) =>
  regenerateRecoveryCodes(deps, { ...sessionAt(deps, 2), userId, code, ...FROM }, context());
async function verify(tempToken: string, code: string, deviceToken = "") {
  const result = await completeMfaLogin(deps, { tempToken, code, deviceToken, ...FROM }, context());
  if (result.kind !== "completed") throw new Error("asked for another password");
  return result;
}
/** The user's audit events, oldest first. */
const recorded = () =>
  database.ownerSql`
    select type, reason, error_code, actor_id, ip, user_agent from security_events
    where user_id = ${userId} and type <> 'user_registered' order by id`;
/** Changes the account after its password was checked, before the change that needs it. */
function afterPassword(change: () => Promise<unknown>): void {
  const { verify: verifyPassword } = deps.passwords;
  deps.passwords.verify = async (...args) => {
    const verdict = await verifyPassword(...args);
    deps.passwords.verify = verifyPassword;
    await change();
    return verdict;
  };
}
async function logIn(): Promise<string> {
  const result = await logInWith(deps, { email: EMAIL, password: PASSWORD, ...NEW_DEVICE }, context());
  if (result.kind !== "mfaChallenge") throw new Error("logged in without a second factor");
  return result.tempToken;
}
/** The same for any number at once: of logins with a password, one at a time is tried. */
async function begun(firstFactor: FirstFactor = "pwd"): Promise<string> {
  const user = await getAccount(deps, userId);
  return (await beginMfaChallenge(deps, { user, firstFactor }, FROM)).tempToken;
}
/** With a code that can still be used. */
async function enrolled() {
  const { secret } = await setUp();
  const { recoveryCodes } = await enable(codeOf(secret));
  pass(30);
  return { secret, recoveryCodes };
}
const mails = async () =>
  (await database.ownerSql<{ template: string }[]>`select template from mail_outbox order by template`).map(
    ({ template }) => template,
  );
const left = async () => (await getOwnAccount(deps, userId)).recoveryCodesLeft;
async function outcomes(work: Promise<unknown>[]): Promise<Record<string, number>> {
  const settled = await Promise.allSettled(work);
  const names = settled.map((result) =>
    result.status === "fulfilled" ? "success" : String((result.reason as { code?: unknown }).code),
  );
  return Object.fromEntries(
    Map.groupBy(names, (name) => name)
      .entries()
      .map(([name, all]) => [name, all.length]),
  );
}

test("set up, confirm, log in with a code: the session says how", async () => {
  const { secret, otpauthUrl, qrCode } = await setUp();
  expect(secret).toMatch(/^[A-Z2-7]{32}$/);
  expect(otpauthUrl).toContain(`secret=${secret}`);
  expect(Buffer.from(qrCode.replace("data:image/svg+xml;base64,", ""), "base64").toString()).toMatch(/^<svg/);

  const { recoveryCodes } = await enable(codeOf(secret));
  expect(recoveryCodes).toHaveLength(10);
  expect(await getAccount(deps, userId)).toMatchObject({ mfaEnabled: true });
  expect(await left()).toBe(10);
  expect(await mails()).toEqual(["mfa-enabled"]);

  pass(30);
  const { tokens, user } = await verify(await logIn(), codeOf(secret));
  expect(tokens.accessToken).toBe("access");
  expect(user).toMatchObject({ id: userId, mfaEnabled: true });
  expect(deps.tokenService.issueSession.mock.calls.map(([session]) => session)).toEqual([
    {
      userId,
      role: "USER",
      limits: expect.anything(),
      amr: ["pwd", "otp", "mfa"],
      acr: 2,
      authTime: deps.now(),
      ...FROM,
    },
  ]);
});

test("a replica whose clock is four seconds behind the one of the set-up confirms it", async () => {
  // Both in one step of the code.
  nowMs = Math.ceil(nowMs / 30_000) * 30_000 + 10_000;
  const { secret } = await setUp();
  const code = codeOf(secret);
  pass(-4);
  expect((await enable(code)).recoveryCodes).toHaveLength(10);
  expect(await getAccount(deps, userId)).toMatchObject({ hasTotp: true });
});

test("a right password alone begins no session and gives 256 bits, of which only a hash is kept", async () => {
  await enrolled();
  const tempToken = await logIn();
  expect(tempToken).toMatch(/^[\w-]{43}$/);
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  const rows = await database.ownerSql`select token_hash, ip, user_agent from mfa_challenges`;
  expect(rows).toEqual([{ token_hash: expect.any(Buffer), ip: "192.0.2.1", user_agent: "curl/8" }]);
  expect(JSON.stringify(await database.ownerSql`select * from mfa_challenges`)).not.toContain(tempToken);
});

test("a factor that was not confirmed changes nothing, and asks for nothing", async () => {
  await setUp();
  expect(await getAccount(deps, userId)).toMatchObject({ mfaEnabled: false });
  await expect(logIn()).rejects.toThrow("without a second factor");
});

test("set-up needs the password", async () => {
  await expect(setUp("wrong")).rejects.toMatchObject({ code: "invalid_credentials" });
  expect(await database.ownerSql`select from totp_credentials`).toHaveLength(0);
});

test("only the latest secret can be confirmed", async () => {
  const first = await setUp();
  const second = await setUp();
  await expect(enable(codeOf(first.secret))).rejects.toMatchObject({ code: "mfa_code_invalid" });
  expect((await enable(codeOf(second.secret))).recoveryCodes).toHaveLength(10);
});

test("two set-ups race: one secret is left, and it can be confirmed", async () => {
  const secrets = (await Promise.all([setUp(), setUp(), setUp()])).map(({ secret }) => secret);
  expect(await outcomes(secrets.map((secret) => enable(codeOf(secret))))).toMatchObject({ success: 1 });
});

test("a secret that waited 15 minutes for its first code has expired", async () => {
  const { secret } = await setUp();
  pass(15 * MINUTE_S);
  await expect(enable(codeOf(secret))).rejects.toMatchObject({ code: "mfa_code_invalid" });
  expect(await getAccount(deps, userId)).toMatchObject({ mfaEnabled: false });
  nowMs -= 1;
  expect((await enable(codeOf(secret))).recoveryCodes).toHaveLength(10);
});

test("a new password ends a set-up that was begun with the old one, also in the session that goes on", async () => {
  const { secret } = await setUp();
  const change = { userId, sessionId: SESSION, currentPassword: PASSWORD, newPassword: "Changed-4711!" };
  await changePassword(deps, { ...sessionAt(deps, 2), ...change, clientIp: "" }, context());
  await expect(enable(codeOf(secret))).rejects.toMatchObject({ code: "mfa_code_invalid" });
  expect(await left()).toBeUndefined();
  const again = await setUp(change.newPassword);
  expect((await enable(codeOf(again.secret))).recoveryCodes).toHaveLength(10);
});

test("an end of sessions ends a set-up that they have begun, while token-service cannot end them", async () => {
  const { secret } = await setUp();
  deps.tokenService.revokeUserSessions.mockRejectedValueOnce(new DomainError("service_unavailable"));
  const end = endOwnSessions(deps, { userId, exceptSessionId: "" }, context());
  await expect(end).rejects.toMatchObject({ code: "service_unavailable" });
  await expect(enable(codeOf(secret))).rejects.toMatchObject({ code: "mfa_code_invalid" });
  expect(await left()).toBeUndefined();
});

test("without a set-up there is nothing to confirm", async () => {
  await expect(enable("123456")).rejects.toMatchObject({ code: "mfa_code_invalid" });
});

test("once it is on, neither a new set-up nor a second confirmation takes its place", async () => {
  const { secret } = await enrolled();
  await expect(setUp()).rejects.toMatchObject({ code: "mfa_already_enabled" });
  await expect(enable(codeOf(secret))).rejects.toMatchObject({ code: "mfa_already_enabled" });
});

test("fifty confirmations race: one set of recovery codes, one mail", async () => {
  const { secret } = await setUp();
  const code = codeOf(secret);
  expect(await outcomes(Array.from({ length: 50 }, () => enable(code)))).toEqual({
    success: 1,
    mfa_already_enabled: 49,
  });
  expect(await left()).toBe(10);
  expect(await mails()).toEqual(["mfa-enabled"]);
});

test("the code that confirmed does not log in as well", async () => {
  const { secret } = await setUp();
  const code = codeOf(secret);
  await enable(code);
  await expect(verify(await logIn(), code)).rejects.toMatchObject({ code: "mfa_code_invalid" });
});

test("turning it on ends the user's other sessions, before the answer", async () => {
  deps.tokenService.revokeUserSessions.mockResolvedValue(["s1", "s2"]);
  const { secret } = await setUp();
  const { endedSessionIds } = await enable(codeOf(secret));
  expect(endedSessionIds).toEqual(["s1", "s2"]);
  expect(deps.tokenService.revokeUserSessions.mock.calls[0]?.[0]).toMatchObject({
    userId,
    exceptSessionId: SESSION,
    reason: "mfa_enabled",
  });
  expect(await database.ownerSql`select from session_ends`).toHaveLength(0);
});

test("while token-service is away it is on all the same, the codes are shown, and the end of the sessions is owed", async () => {
  deps.tokenService.revokeUserSessions.mockRejectedValue(new DomainError("service_unavailable"));
  const { secret } = await setUp();
  expect((await enable(codeOf(secret))).recoveryCodes).toHaveLength(10);
  expect(await getAccount(deps, userId)).toMatchObject({ mfaEnabled: true });
  expect(await database.ownerSql`select user_id, except_session_id, reason from session_ends`).toEqual([
    { user_id: userId, except_session_id: SESSION, reason: "mfa_enabled" },
  ]);
});

test("a login that was under way when it was turned on gives no session", async () => {
  const { secret } = await setUp();
  afterPassword(() => enable(codeOf(secret)));
  await expect(logIn()).rejects.toMatchObject({ code: "invalid_credentials" });
  expect(deps.tokenService.revokeSession).toHaveBeenCalledTimes(1);
});

test("fifty logins use one TOTP code at once: one gets in", async () => {
  const { secret } = await enrolled();
  const tokens = await Promise.all(Array.from({ length: 50 }, () => begun()));
  const code = codeOf(secret);
  const result = await outcomes(tokens.map((token) => verify(token, code)));
  expect(result).toEqual({ success: 1, mfa_code_invalid: 10, too_many_requests: 39 });
  expect(deps.tokenService.issueSession).toHaveBeenCalledTimes(1);
});

test("a code counts once, also from one login to the next; the one before it no more", async () => {
  const { secret } = await enrolled();
  const [code, before] = [codeOf(secret), codeOf(secret, -30)];
  await verify(await logIn(), code);
  const token = await logIn();
  await expect(verify(token, code)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  await expect(verify(token, before)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  pass(30);
  expect(await verify(token, codeOf(secret))).toMatchObject({ user: { id: userId } });
});

test("a clock that jumps back accepts no step twice", async () => {
  const { secret } = await enrolled();
  const code = codeOf(secret);
  await verify(await logIn(), code);
  for (const jumpS of [-90, 180, -90]) {
    pass(jumpS);
    await expect(verify(await logIn(), code)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  }
});

test("this step and the one before are accepted, no other", async () => {
  const { secret } = await enrolled();
  pass(300);
  for (const shiftS of [-60, 30, 60]) {
    await expect(verify(await logIn(), codeOf(secret, shiftS))).rejects.toMatchObject({
      code: "mfa_code_invalid",
    });
  }
  expect(await verify(await logIn(), codeOf(secret, -30))).toMatchObject({ user: { id: userId } });
  expect(await verify(await logIn(), codeOf(secret))).toMatchObject({ user: { id: userId } });
});

test("fifty uses of one challenge at once: one session, and no row is left of it", async () => {
  const { secret, recoveryCodes } = await enrolled();
  const token = await logIn();
  const codes = [codeOf(secret), ...recoveryCodes];
  const result = await outcomes(
    Array.from({ length: 50 }, (_, index) => verify(token, codes[index % codes.length] ?? "")),
  );
  expect(result).toEqual({ success: 1, mfa_token_invalid: 49 });
  expect(await database.ownerSql`select from mfa_challenges`).toHaveLength(0);
});

test("fifty logins use one recovery code at once: one succeeds, and the owner gets a mail", async () => {
  const { recoveryCodes } = await enrolled();
  const [code = ""] = recoveryCodes;
  const tokens = await Promise.all(Array.from({ length: 50 }, () => begun()));
  const result = await outcomes(tokens.map((token) => verify(token, code)));
  expect(result).toEqual({ success: 1, mfa_code_invalid: 10, too_many_requests: 39 });
  expect(deps.tokenService.issueSession.mock.calls[0]?.[0]).toMatchObject({ amr: ["pwd", "mfa"] });
  expect(await left()).toBe(9);
  const recorded =
    await database.ownerSql`select recipient, data from mail_outbox where template = 'recovery-code-used'`;
  expect(recorded).toEqual([
    {
      recipient: EMAIL,
      data: { occurredAt: "2031-01-02T03:04:35.678Z", ip: "192.0.2.1", browser: "curl", codesLeft: "9" },
    },
  ]);
});

test("a recovery code may be typed in lower case, with spaces; another user's is refused", async () => {
  const { recoveryCodes } = await enrolled();
  const typed = ` ${recoveryCodes[3]?.toLowerCase().replaceAll("-", " ")} `;
  expect(await verify(await logIn(), typed)).toMatchObject({ user: { id: userId } });

  const anna = userId;
  const ben = { email: "ben@example.com", password: PASSWORD, firstName: "Ben", lastName: "Smith" };
  userId = (await register(deps, ben, soon())).id;
  await proveCredentials(database.ownerSql, userId);
  await enrolled();
  await expect(renew(recoveryCodes[4] ?? "")).rejects.toMatchObject({ code: "mfa_code_invalid" });
  userId = anna;
  expect(await left()).toBe(9);
});

test("recovery codes are kept as hashes only", async () => {
  const { recoveryCodes } = await enrolled();
  const kept = await database.ownerSql<{ hash: Buffer }[]>`select code_hash as hash from recovery_codes`;
  const text = kept.map(({ hash }) => hash.toString("latin1")).join();
  for (const code of recoveryCodes) expect(text).not.toContain(code.replaceAll("-", ""));
});

test("a challenge takes five tries; a right code as the sixth comes too late", async () => {
  const { secret } = await enrolled();
  const token = await logIn();
  for (let count = 0; count < 5; count += 1) {
    await expect(verify(token, WRONG)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  }
  await expect(verify(token, codeOf(secret))).rejects.toMatchObject({ code: "mfa_token_invalid" });
  expect(await verify(await logIn(), codeOf(secret))).toMatchObject({ user: { id: userId } });
});

test("fifty wrong codes at once on one challenge: five are tried", async () => {
  await enrolled();
  const token = await logIn();
  expect(await outcomes(Array.from({ length: 50 }, () => verify(token, WRONG)))).toEqual({
    mfa_code_invalid: 5,
    mfa_token_invalid: 45,
  });
});

const spentFor = (retryAfterMs: number) => ({ code: "too_many_requests", retryAfterMs });
const inRow = async () =>
  (await database.ownerSql`select unknown_in_a_row, known_in_a_row from mfa_guessing`)[0];

/** What one code comes to, without the cost of a login's password. */
async function tryCode(code: string, source: CodeSource): Promise<string> {
  const work = transaction(database.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, userId);
    if (user === undefined) throw new Error("no user");
    return (await checkMfaCode(tx, deps, { user, typed: { code, ...FROM }, source }, context())) ?? "wrong";
  });
  return work.catch((error: unknown) => (error instanceof DomainError ? error.code : Promise.reject(error)));
}
const UNKNOWN = { deviceToken: "" };
/** Of a login with the second factor. */
async function knownDevice(secret: string): Promise<{ deviceToken: string }> {
  const { user } = await verify(await logIn(), codeOf(secret));
  const deviceToken = await rememberDevice(deps, { user, deviceToken: "", ...FROM });
  pass(30);
  return { deviceToken };
}

test("an account takes ten wrong codes in 15 minutes, over challenges and restarts; its recovery codes work all the same", async () => {
  const { secret, recoveryCodes } = await enrolled();
  const wrong = { code: "mfa_code_invalid" };
  for (let count = 0; count < 5; count += 1) {
    await expect(verify(await logIn(), WRONG)).rejects.toMatchObject(wrong);
  }
  // Another process, which has nothing in memory.
  const { mfaKeys } = deps;
  deps = { ...(await testDeps(database.sql)), mfaKeys, now: () => new Date(nowMs) };
  for (let count = 0; count < 5; count += 1) {
    await expect(verify(await logIn(), WRONG)).rejects.toMatchObject(wrong);
  }
  pass(60);
  await expect(verify(await logIn(), codeOf(secret))).rejects.toMatchObject(spentFor(14 * 60_000));
  await expect(verify(await logIn(), WRONG)).rejects.toMatchObject(spentFor(14 * 60_000));
  expect(await verify(await logIn(), recoveryCodes[0] ?? "")).toMatchObject({ user: { id: userId } });
  pass(14 * MINUTE_S);
  expect(await verify(await logIn(), codeOf(secret))).toMatchObject({ user: { id: userId } });
});

test("guesses with the password do not use up the tries of the owner's device and sessions", async () => {
  const { secret } = await enrolled();
  const device = await knownDevice(secret);
  for (let count = 0; count < 10; count += 1) {
    await expect(verify(await logIn(), WRONG)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  }
  await expect(verify(await logIn(), codeOf(secret))).rejects.toMatchObject({ code: "too_many_requests" });
  expect(await verify(await logIn(), codeOf(secret), device.deviceToken)).toMatchObject({
    user: { id: userId },
  });
  pass(30);
  expect(await renew(codeOf(secret))).toHaveLength(10);
});

test("guesses from sessions and known devices are bounded too", async () => {
  const { secret } = await enrolled();
  const device = await knownDevice(secret);
  for (let count = 0; count < 5; count += 1) expect(await tryCode(WRONG, device)).toBe("wrong");
  for (let count = 0; count < 4; count += 1) {
    await expect(renew(WRONG)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  }
  await expect(disable(WRONG)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  expect(await tryCode(codeOf(secret), device)).toBe("too_many_requests");
  await expect(renew(codeOf(secret))).rejects.toMatchObject({ code: "too_many_requests" });
  expect(await tryCode(codeOf(secret), UNKNOWN)).toBe("totp");
});

test("a device is known from its first login with the second factor, another's or an older password's never", async () => {
  const before = await logInWith(deps, { email: EMAIL, password: PASSWORD, ...NEW_DEVICE }, context());
  if (!("user" in before)) throw new Error("no session");
  const early = { deviceToken: await rememberDevice(deps, { user: before.user, deviceToken: "", ...FROM }) };
  pass(1);
  const { secret } = await enrolled();
  const strangers = deps.deviceTokens.issue({ id: deps.newId(), userId: deps.newId() });
  const old = deps.deviceTokens.issue({ id: deps.newId(), userId, passwordEpoch: 7 });
  for (let count = 0; count < 10; count += 1) expect(await tryCode(WRONG, UNKNOWN)).toBe("wrong");
  for (const source of [early, { deviceToken: strangers }, { deviceToken: old }, { deviceToken: "x" }]) {
    expect(await tryCode(codeOf(secret), source)).toBe("too_many_requests");
  }
});

test("a day of guessing on every way in tries so few codes that it gets in with less than 1 in 10,000", {
  tags: "exhaustive",
}, async () => {
  const { secret } = await enrolled();
  const device = await knownDevice(secret);
  let tried = 0;
  for (let minute = 0; minute < 24 * 60; minute += 5) {
    for (const source of [UNKNOWN, device, "session"] as const) {
      while ((await tryCode(WRONG, source)) === "wrong") tried += 1;
    }
    pass(5 * MINUTE_S);
  }
  expect(tried).toBe(40);
  // Two codes of a million are accepted at any time.
  expect((tried * 2) / 1_000_000).toBeLessThan(1e-4);
});

test("a right code of the owner's ends the row of wrong ones, and gives the guesser none of the day's tries back", async () => {
  const { secret } = await enrolled();
  const device = await knownDevice(secret);
  let tried = 0;
  for (let quarter = 0; quarter < 4 * 24; quarter += 1) {
    while ((await tryCode(WRONG, UNKNOWN)) === "wrong") tried += 1;
    expect(await tryCode(codeOf(secret), device)).toBe("totp");
    expect(await inRow()).toEqual({ unknown_in_a_row: 0, known_in_a_row: 0 });
    pass(15 * MINUTE_S);
  }
  expect(tried).toBe(20);
});

test("after a hundred wrong codes in a row the app's codes are no more tried, until a recovery code or a new password", async () => {
  const { secret, recoveryCodes } = await enrolled();
  const guessUntilShut = async () => {
    let tried = 0;
    for (let step = 0; step < 20; step += 1) {
      while ((await tryCode(WRONG, UNKNOWN)) === "wrong") tried += 1;
      pass(12 * 60 * MINUTE_S);
    }
    return tried;
  };
  expect(await guessUntilShut()).toBe(100);
  pass(30 * 24 * 60 * MINUTE_S);
  expect(await tryCode(codeOf(secret), UNKNOWN)).toBe("too_many_requests");
  expect(await tryCode(recoveryCodes[0] ?? "", UNKNOWN)).toBe("recovery_code");
  expect(await tryCode(codeOf(secret), UNKNOWN)).toBe("totp");

  expect(await guessUntilShut()).toBe(100);
  const change = { userId, sessionId: SESSION, currentPassword: PASSWORD, newPassword: "another long one" };
  await changePassword(deps, { ...sessionAt(deps, 2), ...change, clientIp: "" }, context());
  expect(await tryCode(codeOf(secret), UNKNOWN)).toBe("totp");
});

test("a new password gives the day's tries back, at most once a day", async () => {
  const { secret } = await enrolled();
  const spend = async () => {
    let tried = 0;
    for (const minutes of [15, 15, 0]) {
      while ((await tryCode(WRONG, UNKNOWN)) === "wrong") tried += 1;
      pass(minutes * MINUTE_S);
    }
    return tried;
  };
  const change = async (currentPassword: string, newPassword: string) => {
    const request = { userId, sessionId: SESSION, currentPassword, newPassword, clientIp: "" };
    await changePassword(deps, { ...sessionAt(deps, 2), ...request }, context());
  };
  expect(await spend()).toBe(20);
  await change(PASSWORD, "another long one");
  expect(await spend()).toBe(20);
  await change("another long one", "a third long one");
  expect(await spend()).toBe(0);
  expect(await tryCode(codeOf(secret), UNKNOWN)).toBe("too_many_requests");
});

test("the owner gets a mail at the fifth wrong code in a row, at most once a day", async () => {
  const { secret } = await enrolled();
  await emptyTables(database.ownerSql, "mail_outbox");
  for (let count = 0; count < 4; count += 1) await tryCode(WRONG, UNKNOWN);
  expect(await tryCode(codeOf(secret), UNKNOWN)).toBe("totp");
  for (let count = 0; count < 4; count += 1) await tryCode(WRONG, UNKNOWN);
  expect(await mails()).toEqual([]);
  await tryCode(WRONG, UNKNOWN);
  expect(await mails()).toEqual(["mfa-guessed"]);
  pass(15 * MINUTE_S);
  for (let count = 0; count < 10; count += 1) await tryCode(WRONG, UNKNOWN);
  expect(await mails()).toEqual(["mfa-guessed"]);
  pass(24 * 60 * MINUTE_S);
  await tryCode(WRONG, UNKNOWN);
  expect(await mails()).toEqual(["mfa-guessed", "mfa-guessed"]);
});

test("wrong codes of known and other devices make one row for the mail", async () => {
  await enrolled();
  await emptyTables(database.ownerSql, "mail_outbox");
  for (const source of [UNKNOWN, "session", UNKNOWN, "session"] as const) await tryCode(WRONG, source);
  expect(await mails()).toEqual([]);
  await tryCode(WRONG, UNKNOWN);
  expect(await mails()).toEqual(["mfa-guessed"]);
});

describe("the mail about a change", () => {
  async function undo(template: string): Promise<void> {
    const [mail] = await database.ownerSql<{ data: { link: string } }[]>`
      select data from mail_outbox where template = ${template}`;
    const token = deps.linkTokens.tokenOf(mail?.data.link.split(":")[1] ?? "");
    await undoAccessChange(deps, token, context());
  }
  const DAY_S = 24 * 60 * MINUTE_S;

  test("takes a removal back: nobody is logged in, and the password is gone", async () => {
    const { secret } = await enrolled();
    await disable(codeOf(secret));
    pass(7 * DAY_S - 1);
    await undo("mfa-disabled");
    expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({
      exceptSessionId: null,
      reason: "access_change_undone",
    });
    await expect(setUp()).rejects.toMatchObject({ code: "invalid_credentials" });
    expect(await mails()).toContain("reset-password");
  });

  test("makes new recovery codes useless, and leaves a factor that is older", async () => {
    const { secret } = await enrolled();
    pass(8 * DAY_S);
    const renewed = await renew(codeOf(secret));
    pass(7 * DAY_S - 1);
    await undo("recovery-codes-renewed");
    expect(await left()).toBe(0);
    expect(await tryCode(renewed[0] ?? "", UNKNOWN)).toBe("wrong");
    expect(await tryCode(codeOf(secret), UNKNOWN)).toBe("totp");
  });

  test("takes nothing back after seven days", async () => {
    const { secret } = await enrolled();
    await disable(codeOf(secret));
    pass(7 * DAY_S);
    await expect(undo("mfa-disabled")).rejects.toMatchObject({ code: "verification_token_invalid" });
  });
});

test.each([
  " 123456",
  "123456 ",
  "123 456",
  "12345",
  "1234567",
  "\u0661\u0662\u0663\u0664\u0665\u0666",
  "1e5",
  "123456\n",
  "ABCDEF",
])("%j is no code: refused, and not counted", async (code) => {
  await enrolled();
  expect(await tryCode(code, UNKNOWN)).toBe("validation_failed");
  await expect(renew(code)).rejects.toMatchObject({ code: "validation_failed" });
  await expect(verify(await logIn(), code)).rejects.toMatchObject({ code: "validation_failed" });
  expect(await inRow()).toBeUndefined();
  expect(await database.ownerSql`select attempts from mfa_challenges`).toEqual([{ attempts: 0 }]);
});

test("the eleventh wrong code of a set-up is not tried", async () => {
  const { secret } = await setUp();
  for (let count = 0; count < 10; count += 1) {
    await expect(enable(WRONG)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  }
  await expect(enable(codeOf(secret))).rejects.toMatchObject({ code: "too_many_requests" });
  expect(await getAccount(deps, userId)).toMatchObject({ mfaEnabled: false });
  expect(await mails()).toEqual([]);
});

test("wrong codes are deleted after a day, also those of inactive users", async () => {
  await enrolled();
  await tryCode(WRONG, UNKNOWN);
  pass(24 * 60 * MINUTE_S - 1);
  await deleteOldWrongCodes(deps);
  expect(await database.ownerSql`select from mfa_failures`).toHaveLength(1);
  pass(2);
  await deleteOldWrongCodes(deps);
  expect(await database.ownerSql`select from mfa_failures`).toHaveLength(0);
});

test("a challenge is over after five minutes", async () => {
  const { secret } = await enrolled();
  const [early, late] = [await logIn(), await logIn()];
  pass(299);
  expect(await verify(early, codeOf(secret))).toMatchObject({ user: { id: userId } });
  pass(1);
  await expect(verify(late, codeOf(secret, -30))).rejects.toMatchObject({ code: "mfa_token_invalid" });
});

test.each([
  ["the account was disabled", () => database.ownerSql`update users set status = 'disabled'`],
  ["its sessions were ended", () => database.ownerSql`update users set session_epoch = session_epoch + 1`],
  ["the account is gone", () => database.ownerSql`delete from users`],
])("a login that waits for its code is over when %s", async (_what, change) => {
  const { secret } = await enrolled();
  const token = await logIn();
  await change();
  await expect(verify(token, codeOf(secret))).rejects.toMatchObject({ code: "mfa_token_invalid" });
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
});

test.each([
  ["nothing", ""],
  ["a letter", "x"],
  ["43 letters", "a".repeat(43)],
  ["one that was never given", randomBytes(32).toString("base64url")],
  ["5,000 letters", "a".repeat(5_000)],
])("%s is no tempToken", async (_what, token) => {
  await expect(verify(token, "123456")).rejects.toMatchObject({ code: "mfa_token_invalid" });
});

test("while token-service is away a login with a right code is unavailable, and the code is used up", async () => {
  const { secret } = await enrolled();
  deps.tokenService.issueSession.mockRejectedValueOnce(new DomainError("service_unavailable"));
  const code = codeOf(secret);
  await expect(verify(await logIn(), code)).rejects.toMatchObject({ code: "service_unavailable" });
  await expect(verify(await logIn(), code)).rejects.toMatchObject({ code: "mfa_code_invalid" });
});

test("new recovery codes need a code, and the old ones stop working", async () => {
  const { secret, recoveryCodes } = await enrolled();
  await expect(renew(WRONG)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  const renewed = await renew(codeOf(secret));
  expect(renewed).toHaveLength(10);
  expect(renewed).not.toContain(recoveryCodes[0]);
  await expect(verify(await logIn(), recoveryCodes[0] ?? "")).rejects.toMatchObject({
    code: "mfa_code_invalid",
  });
  expect(await verify(await logIn(), renewed[0] ?? "")).toMatchObject({ user: { id: userId } });
  expect(await mails()).toEqual(["mfa-enabled", "recovery-code-used", "recovery-codes-renewed"]);
});

test("turning it off needs password and code, forgets all of it, and ends the other sessions", async () => {
  const { secret } = await enrolled();
  const waiting = await logIn();
  await expect(disable(codeOf(secret), "wrong")).rejects.toMatchObject({ code: "invalid_credentials" });
  await expect(disable(WRONG)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  deps.tokenService.revokeUserSessions.mockResolvedValue(["s1"]);
  expect(await disable(codeOf(secret))).toEqual(["s1"]);
  expect(await getAccount(deps, userId)).toMatchObject({ mfaEnabled: false });
  expect(await left()).toBeUndefined();
  for (const table of ["totp_credentials", "recovery_codes", "mfa_challenges"]) {
    expect(await database.ownerSql`select from ${database.ownerSql(table)}`).toHaveLength(0);
  }
  await expect(verify(waiting, codeOf(secret))).rejects.toMatchObject({ code: "mfa_token_invalid" });
  await expect(disable(codeOf(secret))).rejects.toMatchObject({ code: "mfa_code_invalid" });
  expect(await mails()).toEqual(["mfa-disabled", "mfa-enabled"]);
  const result = await logInWith(deps, { email: EMAIL, password: PASSWORD, ...NEW_DEVICE }, context());
  expect(result).toMatchObject({ user: { id: userId } });
});

test("a secret that was changed in the database is an error and not a wrong code", async () => {
  const { secret } = await enrolled();
  await database.ownerSql`update totp_credentials set secret_encrypted = set_byte(secret_encrypted, 20, 1 - get_byte(secret_encrypted, 20) % 2)`;
  const failure = await verify(await logIn(), codeOf(secret)).catch((error: unknown) => error);
  expect(failure).not.toBeInstanceOf(DomainError);
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
});

test("a recovery code works without the app, and without the encryption key", async () => {
  const { recoveryCodes } = await enrolled();
  deps = { ...deps, mfaKeys: [newTestKey()] };
  expect(await verify(await logIn(), recoveryCodes[0] ?? "")).toMatchObject({ user: { id: userId } });
});

test("after a change of keys, secrets of the earlier key are encrypted again, and unreadable ones stay", async () => {
  const { secret } = await enrolled();
  const ben = { email: "ben@example.com", password: PASSWORD, firstName: "Ben", lastName: "Smith" };
  const other = (await register(deps, ben, soon())).id;
  await database.ownerSql`
    insert into totp_credentials (user_id, secret_encrypted, key_id, created_at)
    values (${other}, ${randomBytes(48)}, ${deps.mfaKeys[0].id}, now())`;
  const present = newTestKey();
  const rotating = { ...deps, mfaKeys: [present, deps.mfaKeys[0]] as const };
  const metrics = createMetrics("test");
  const run = createReencryption(rotating, metrics);
  await run();
  expect(await metrics.render()).toMatch(/^gatehouse_totp_secrets_under_earlier_key\{[^}]*\} 1$/m);
  await run();
  expect(deps.logLines.filter((line) => line.includes("TOTP secrets cannot be read"))).toEqual([
    expect.stringContaining(other),
  ]);
  deps = { ...deps, mfaKeys: [present] };
  expect(await verify(await logIn(), codeOf(secret))).toMatchObject({ user: { id: userId } });
});

/** Accounts with secrets under the present key. */
async function plantSecrets(count: number): Promise<void> {
  const ids = Array.from({ length: count }, () => deps.newId());
  const users = ids.map((id) => ({ id, email: `${id}@example.com` }));
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, created_at, updated_at)
    select id::uuid, email, 'A', 'B', 'USER', 'active', true, now(), now()
    from jsonb_to_recordset(${database.ownerSql.json(users)}) as planted (id text, email text)`;
  const rows = ids.map((id) => {
    const { secretEncrypted, keyId } = sealTotpSecret(deps.mfaKeys, id, randomBytes(20));
    return { user_id: id, secret_encrypted: secretEncrypted, key_id: keyId, created_at: deps.now() };
  });
  await database.ownerSql`insert into totp_credentials ${database.ownerSql(rows)}`;
}

test("secrets are encrypted anew in batches, by one replica at a time", async () => {
  await plantSecrets(1_100);
  const present = newTestKey();
  const rotating = { ...deps, mfaKeys: [present, deps.mfaKeys[0]] as const };
  await transaction(database.sql, async (tx) => {
    expect(await lockReencryption(tx)).toBe(true);
    expect(await reencryptTotpSecrets(rotating)).toEqual({ done: 0, unreadable: [] });
  });
  const all = await Promise.all([reencryptTotpSecrets(rotating), reencryptTotpSecrets(rotating)]);
  const last = await reencryptTotpSecrets(rotating);
  expect([...all, last].reduce((sum, { done }) => sum + done, 0)).toBe(1_100);
  const stored = await database.ownerSql<{ userId: string; secretEncrypted: Buffer; keyId: string }[]>`
    select user_id as "userId", secret_encrypted as "secretEncrypted", key_id as "keyId" from totp_credentials`;
  for (const { userId: id, ...sealed } of stored)
    expect(openTotpSecret([present], id, sealed)).toHaveLength(20);
  expect(stored).toHaveLength(1_100);
});

test("a long re-encryption logs every ten seconds how far it is, and the gauge falls with it", async () => {
  await plantSecrets(1_600);
  const rotating = { ...deps, mfaKeys: [newTestKey(), deps.mfaKeys[0]] as const };
  const metrics = createMetrics("test");
  const rendered: Promise<string>[] = [];
  let ms = 0;
  await createReencryption(rotating, metrics, () => {
    rendered.push(metrics.render());
    ms += 4_000;
    return ms;
  })();
  const left = (await Promise.all([...rendered, metrics.render()])).map(
    (text) => /_under_earlier_key\{[^}]*\} (\d+)$/m.exec(text)?.[1],
  );
  expect(left).toEqual(["1600", "1100", "600", "100", "1", "1", "0"]);
  const lines = deps.logLines.map((line) => JSON.parse(line)).filter(({ perSecond }) => perSecond);
  expect(lines).toMatchObject([{ done: 1_500, left: 100, perSecond: 125, leftS: 1 }]);
});

test("challenges that ended a day ago are deleted by the clean-up, not by a login", async () => {
  const challenges = async () => (await database.ownerSql`select from mfa_challenges`).length;
  await enrolled();
  await logIn();
  pass(24 * 60 * MINUTE_S + 300);
  await deleteEndedLogins(deps);
  await logIn();
  expect(await challenges()).toBe(2);
  pass(1);
  await logIn();
  expect(await challenges()).toBe(3);
  await deleteEndedLogins(deps);
  expect(await challenges()).toBe(2);
});

test("no log line holds a secret, a code or a tempToken", async () => {
  const { secret, recoveryCodes } = await enrolled();
  const token = await logIn();
  deps.tokenService.revokeUserSessions.mockRejectedValue(new DomainError("service_unavailable"));
  await verify(token, WRONG).catch(() => undefined);
  await disable(codeOf(secret));
  const log = deps.logLines.join();
  expect(log).toContain("sessions not ended yet");
  for (const text of [secret, token, ...recoveryCodes]) expect(log).not.toContain(text);
});

describe("a change of the second factor", () => {
  const loseProof = () =>
    database.ownerSql`update users set credentials_proven_email = null, credentials_proven_at = null`;
  const disableAccount = () => database.ownerSql`update users set status = 'disabled'`;

  test("is recorded in the audit log, with who made it and from where", async () => {
    const { secret } = await setUp();
    await enable(codeOf(secret));
    pass(30);
    await renew(codeOf(secret));
    pass(30);
    await disable(codeOf(secret));
    const byOwner = {
      reason: "",
      error_code: null,
      actor_id: userId,
      ip: FROM.clientIp,
      user_agent: "curl/8",
    };
    expect(await recorded()).toEqual([
      { ...byOwner, type: "mfa_enabled" },
      { ...byOwner, type: "recovery_codes_renewed" },
      { ...byOwner, type: "mfa_disabled" },
    ]);
    expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({
      userId,
      exceptSessionId: SESSION,
      reason: "mfa_disabled",
    });
  });

  test("has its mail sent at once", async () => {
    const { secret } = await setUp();
    for (const make of [enable, renew, disable]) {
      deps.wakeMailWorker.mockClear();
      await make(codeOf(secret));
      expect(deps.wakeMailWorker).toHaveBeenCalledOnce();
      pass(30);
    }
  });

  test("does not begin with a password that was replaced while it was checked", async () => {
    afterPassword(() => database.ownerSql`update users set password_hash = null`);
    await expect(setUp()).rejects.toMatchObject({ code: "invalid_credentials" });
    expect(await database.ownerSql`select from totp_credentials`).toHaveLength(0);
  });

  test("does not end with a password that was replaced while it was checked", async () => {
    const { secret } = await enrolled();
    afterPassword(() => database.ownerSql`update users set password_hash = null`);
    await expect(disable(codeOf(secret))).rejects.toMatchObject({ code: "invalid_credentials" });
    expect(await getAccount(deps, userId)).toMatchObject({ mfaEnabled: true });
  });

  test("needs proven credentials, when it begins and when it is confirmed", async () => {
    const { secret } = await setUp();
    await loseProof();
    await expect(setUp()).rejects.toMatchObject({ code: "email_not_verified" });
    await expect(enable(codeOf(secret))).rejects.toMatchObject({ code: "email_not_verified" });
    expect(await getAccount(deps, userId)).toMatchObject({ mfaEnabled: false });
  });

  test.each([
    ["disabled", disableAccount],
    ["erased", () => database.ownerSql`delete from users`],
  ])("is none of an account that was %s meanwhile", async (_what, end) => {
    const { secret } = await setUp();
    await end();
    await expect(enable(codeOf(secret))).rejects.toMatchObject({ code: "mfa_code_invalid" });
  });

  test.each([
    ["disabled", disableAccount],
    ["erased", () => database.ownerSql`delete from users`],
  ])("gives no recovery codes to an account that was %s meanwhile", async (_what, end) => {
    const { secret } = await enrolled();
    await end();
    await expect(renew(codeOf(secret))).rejects.toMatchObject({ code: "mfa_code_invalid" });
  });

  test("takes what was counted of wrong codes with it, and says whether it was on", async () => {
    const remove = () => transaction(database.sql, (tx) => deleteTotp(tx, userId));
    expect(await remove()).toBe(false);
    await setUp();
    expect(await remove()).toBe(false);
    await enrolled();
    await tryCode(WRONG, UNKNOWN);
    expect(await remove()).toBe(true);
    for (const table of ["mfa_failures", "mfa_guessing"]) {
      expect(await database.ownerSql`select from ${database.ownerSql(table)}`, table).toHaveLength(0);
    }
  });

  test("is confirmed by a right code, which ends the row of wrong ones", async () => {
    const { secret } = await setUp();
    await expect(enable(WRONG)).rejects.toMatchObject({ code: "mfa_code_invalid" });
    expect(await inRow()).toEqual({ unknown_in_a_row: 0, known_in_a_row: 1 });
    await enable(codeOf(secret));
    expect(await inRow()).toEqual({ unknown_in_a_row: 0, known_in_a_row: 0 });
  });
});

test("a secret that was not confirmed accepts no code, from any device", async () => {
  const device = { deviceToken: deps.deviceTokens.issue({ id: deps.newId(), userId }) };
  expect(await tryCode(WRONG, device)).toBe("wrong");
  const { secret } = await setUp();
  for (const source of [device, UNKNOWN, "session"] as const) {
    expect(await tryCode(codeOf(secret), source)).toBe("wrong");
  }
  for (let count = 0; count < 5; count += 1) await tryCode(WRONG, UNKNOWN);
  expect(await mails()).toEqual([]);
});

test("a device is known whose login was in the very second in which the second factor was turned on", async () => {
  nowMs = Date.parse("2031-01-02T03:04:00.000Z");
  const { secret } = await setUp();
  await enable(codeOf(secret));
  const device = { deviceToken: deps.deviceTokens.issue({ id: deps.newId(), userId }) };
  pass(30);
  for (let count = 0; count < 10; count += 1) expect(await tryCode(WRONG, UNKNOWN)).toBe("wrong");
  expect(await tryCode(codeOf(secret), device)).toBe("totp");
});

test("the mail about guessing goes to the owner and says from where", async () => {
  await enrolled();
  for (let count = 0; count < 5; count += 1) await tryCode(WRONG, UNKNOWN);
  const guessed =
    await database.ownerSql`select recipient, data from mail_outbox where template = 'mfa-guessed'`;
  expect(guessed).toEqual([
    { recipient: EMAIL, data: { occurredAt: "2031-01-02T03:04:35.678Z", ip: "192.0.2.1", browser: "curl" } },
  ]);
});

test.each([
  { what: "a login", source: UNKNOWN, tryWrong: async () => verify(await logIn(), WRONG) },
  { what: "a request for recovery codes", source: "session" as const, tryWrong: () => renew(WRONG) },
  {
    what: "a request to turn the second factor off",
    source: "session" as const,
    tryWrong: () => disable(WRONG),
  },
])("the mail about guessing is sent at once when $what causes it", async ({ source, tryWrong }) => {
  await enrolled();
  for (let count = 0; count < 4; count += 1) await tryCode(WRONG, source);
  let waiting: ReturnType<typeof mails> | undefined;
  deps.wakeMailWorker.mockImplementation(() => {
    waiting = mails();
  });
  await expect(tryWrong()).rejects.toMatchObject({ code: "mfa_code_invalid" });
  expect(await waiting).toContain("mfa-guessed");
});

test("a wrong code is recorded without an actor, and a recovery code as the owner's", async () => {
  const { recoveryCodes } = await enrolled();
  await emptyTables(database.ownerSql, "security_events");
  const token = await logIn();
  await expect(verify(token, WRONG)).rejects.toMatchObject({ code: "mfa_code_invalid" });
  deps.wakeMailWorker.mockClear();
  await verify(token, recoveryCodes[0] ?? "");
  expect(deps.wakeMailWorker).toHaveBeenCalledOnce();
  const origin = { ip: FROM.clientIp, user_agent: FROM.userAgent };
  expect(await recorded()).toEqual([
    {
      type: "login_failed",
      reason: "wrong_mfa_code",
      error_code: "mfa_code_invalid",
      actor_id: null,
      ...origin,
    },
    { type: "recovery_code_used", reason: "", error_code: null, actor_id: userId, ...origin },
  ]);
});

test("a login with a code of the app causes no mail", async () => {
  const { secret } = await enrolled();
  deps.wakeMailWorker.mockClear();
  await verify(await logIn(), codeOf(secret));
  expect(deps.wakeMailWorker).not.toHaveBeenCalled();
});

test("any address and user agent begin a login; the stored texts are cut", async () => {
  await enrolled();
  const from = {
    clientIp: `192.0.2.1${"x".repeat(60)}`,
    userAgent: `cu\0rl/8${"y".repeat(600)}`,
    deviceToken: "",
  };
  await logInWith(deps, { email: EMAIL, password: PASSWORD, ...from }, context());
  expect(await database.ownerSql`select ip, user_agent from mfa_challenges`).toEqual([
    { ip: `192.0.2.1${"x".repeat(36)}`, user_agent: `curl/8${"y".repeat(506)}` },
  ]);
});

test("the challenge names the codes that can complete the login", async () => {
  await enrolled();
  const result = await logInWith(deps, { email: EMAIL, password: PASSWORD, ...NEW_DEVICE }, context());
  expect(result).toMatchObject({ kind: "mfaChallenge", methods: ["totp", "recovery_code"], userId });
});

test("sessions that are ended while a login's session begins end the login", async () => {
  const { secret } = await enrolled();
  const token = await logIn();
  deps.tokenService.issueSession.mockImplementationOnce(async () => {
    await database.ownerSql`update users set session_epoch = session_epoch + 1`;
    return {
      accessToken: "a",
      refreshToken: "r",
      expiresInS: 900,
      refreshExpiresInS: 604_800,
      sessionId: SESSION,
      userId,
    };
  });
  await expect(verify(token, codeOf(secret))).rejects.toMatchObject({ code: "mfa_token_invalid" });
  expect(deps.tokenService.revokeSession).toHaveBeenCalledOnce();
});

describe("where the password must be changed", () => {
  async function passCode(firstFactor: "pwd" | "fed") {
    const { secret } = await enrolled();
    await database.ownerSql`update users set must_change_password = true`;
    return completeMfaLogin(
      deps,
      { tempToken: await begun(firstFactor), code: codeOf(secret), ...NEW_DEVICE },
      context(),
    );
  }

  test("a login by password is asked for the new one after the code, and keeps how it was made", async () => {
    expect(await passCode("pwd")).toEqual({
      kind: "passwordChange",
      userId,
      tempToken: expect.stringMatching(/^[\w-]{43}$/),
    });
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
    const waiting = await database.ownerSql`select amr from password_change_challenges`;
    expect(waiting).toEqual([{ amr: ["pwd", "otp", "mfa"] }]);
  });

  test("a login at a provider, which has not used the password, begins its session", async () => {
    expect(await passCode("fed")).toHaveProperty("tokens");
    expect(deps.tokenService.issueSession.mock.lastCall?.[0].amr).toEqual(["fed", "otp", "mfa"]);
  });
});

test("old wrong codes are deleted in batches until none is left", async () => {
  await database.ownerSql`
    insert into mfa_failures (id, user_id, failed_at)
    select gen_random_uuid(), ${userId}, ${deps.now()}::timestamptz - interval '2 days' from generate_series(1, 1001)`;
  await deleteOldWrongCodes(deps);
  expect(await database.ownerSql`select from mfa_failures`).toHaveLength(0);
});
