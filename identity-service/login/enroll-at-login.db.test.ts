import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { undoAccessChange } from "../accounts/undo-change.ts";
import { bootstrapAdmin } from "../admin/bootstrap-admin.ts";
import { endUserSessions } from "../admin/end-user-sessions.ts";
import { resetUserMfa } from "../admin/reset-user-mfa.ts";
import { setUserAccess } from "../admin/set-user-access.ts";
import { createIdentityRpc } from "../identity-rpc.ts";
import { disableTotp } from "../mfa/disable-totp.ts";
import {
  ANNA,
  asOperator,
  proveCredentials,
  sessionAt,
  startWithAnna,
  type TestDeps,
} from "../testing/test-deps.ts";
import type { Role } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { changePasswordAtLogin } from "./change-password-at-login.ts";
import { completeLogin } from "./complete-login.ts";
import { completeMfaLogin } from "./complete-mfa-login.ts";
import { deleteEndedLogins } from "./delete-ended-logins.ts";
import { beginTotpEnrollmentAtLogin, completeTotpEnrollmentAtLogin } from "./enroll-at-login.ts";
import { logIn as logInWith } from "./log-in.ts";

const FROM = { clientIp: "192.0.2.1", userAgent: "curl/8" };
const NEW_DEVICE = { ...FROM, deviceToken: "" };
const SESSION = "019a0000-0000-7000-8000-00000000000a";

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let nowMs: number;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  const started = await startWithAnna(database);
  nowMs = Date.parse("2031-01-02T03:04:05.678Z");
  deps = {
    ...started.deps,
    now: () => new Date(nowMs),
    mfaRequiredRoles: new Set<Role>(["ADMIN", "AUDITOR"]),
  };
  userId = started.userId;
  await setRole("AUDITOR");
});
afterAll(() => database.drop());

const context = () => newCallContext({ budgetMs: 60_000 });
const setRole = (role: Role) => database.ownerSql`update users set role = ${role} where id = ${userId}`;
const codeOf = (secret: string) => generateSync({ secret, epoch: Math.floor(nowMs / 1_000) });
const logIn = (email = ANNA.email, password = ANNA.password) =>
  logInWith(deps, { email, password, ...NEW_DEVICE }, context());
async function tokenOf(login: ReturnType<typeof logIn>): Promise<string> {
  const result = await login;
  if (result.kind !== "mfaEnrollment") throw new Error(`not asked to enroll: ${result.kind}`);
  return result.tempToken;
}
const asked = () => tokenOf(logIn());
const setUp = (tempToken: string) => beginTotpEnrollmentAtLogin(deps, tempToken);
const complete = (tempToken: string, code: string) =>
  completeTotpEnrollmentAtLogin(deps, { tempToken, code, ...NEW_DEVICE }, context());
async function enrolled() {
  const tempToken = await asked();
  const { secret } = await setUp(tempToken);
  return { secret, tempToken, result: await complete(tempToken, codeOf(secret)) };
}
const failure = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
const isEnabled = async () => (await findAccountById(deps.sql, userId))?.mfaEnabled;

test("a role that requires a second factor begins no session without one; enrollment completes the login", async () => {
  expect(await logIn()).toEqual({
    kind: "mfaEnrollment",
    tempToken: expect.stringMatching(/^[\w-]{43}$/),
    methods: ["totp", "passkey"],
    userId,
  });
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();

  const { result } = await enrolled();
  expect(result).toMatchObject({ kind: "completed", user: { id: userId, mfaEnabled: true } });
  expect(result.recoveryCodes).toHaveLength(10);
  expect(deps.tokenService.issueSession.mock.calls.map(([session]) => session)).toEqual([
    {
      userId,
      role: "AUDITOR",
      limits: expect.anything(),
      amr: ["pwd", "otp", "mfa"],
      acr: 2,
      authTime: deps.now(),
      ...FROM,
    },
  ]);
  expect(deps.tokenService.revokeUserSessions.mock.calls[0]?.[0]).toMatchObject({
    exceptSessionId: null,
    reason: "mfa_enabled",
  });
  nowMs += 30_000;
  expect(await logIn()).toMatchObject({ kind: "mfaChallenge" });
});

test("the gateway gets the challenge, the secret, and the session with the recovery codes", async () => {
  const rpc = createIdentityRpc(deps);
  const call = { ...context(), caller: "gateway" as const };
  const { email, password } = ANNA;
  const login = await rpc.login({ email, password, ...NEW_DEVICE }, call);
  if (login.result?.$case !== "mfaEnrollment") throw new Error("not asked to enroll");
  expect(login.result.value).toEqual({ tempToken: expect.any(String), methods: ["totp", "passkey"], userId });
  const { tempToken } = login.result.value;
  const begun = await rpc.beginTotpEnrollmentAtLogin({ tempToken }, call);
  expect(begun).toMatchObject({ userId, otpauthUrl: expect.stringContaining("otpauth://totp/") });
  const attempt = { tempToken, code: codeOf(begun.secret), ...NEW_DEVICE };
  const completed = await rpc.completeTotpEnrollmentAtLogin(attempt, call);
  expect(completed.recoveryCodes).toHaveLength(10);
  expect(completed.result?.result).toMatchObject({
    $case: "completed",
    value: { tokens: { accessToken: "access" }, user: { id: userId, mfaEnabled: true } },
  });
});

test("a factor that came after the first step of the login is not passed by: its enrollment is void", async () => {
  const tempToken = await asked();
  await database.ownerSql`
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, name, transports, is_backup_eligible,
      is_backed_up, created_at)
    values (${SESSION}, ${userId}, ${Buffer.alloc(16)}, ${Buffer.alloc(32)}, 0, 'Phone', '{}', true, true, now())`;
  expect(await failure(setUp(tempToken))).toBe("mfa_token_invalid");
  expect(await failure(complete(tempToken, "000000"))).toBe("mfa_token_invalid");
});

test("other roles log in without one", async () => {
  await setRole("USER");
  expect(await logIn()).toMatchObject({ kind: "completed" });
});

test("a login at a provider is asked too, and the session says so", async () => {
  const user = await findAccountById(deps.sql, userId);
  if (user === undefined) throw new Error("no user");
  const proven = { user, amr: ["fed"], authTime: deps.now() };
  const result = await completeLogin(deps, { ...proven, ifEnded: "oauth_failed" }, NEW_DEVICE, context());
  if (result.kind !== "mfaEnrollment") throw new Error("not asked");
  const { secret } = await setUp(result.tempToken);
  await complete(result.tempToken, codeOf(secret));
  expect(deps.tokenService.issueSession.mock.lastCall?.[0].amr).toEqual(["fed", "otp", "mfa"]);
});

test("a password that must be changed comes first, then the second factor", async () => {
  await setUserAccess(deps, { userId, mustChangePassword: true }, asOperator());
  const first = await logIn();
  if (first.kind !== "passwordChange") throw new Error("not asked for a password");
  const change = { tempToken: first.tempToken, newPassword: "an entirely new password", ...NEW_DEVICE };
  const second = await changePasswordAtLogin(deps, change, context());
  if (second.kind !== "mfaEnrollment") throw new Error("not asked to enroll");
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  const { secret } = await setUp(second.tempToken);
  expect(await complete(second.tempToken, codeOf(secret))).toMatchObject({ kind: "completed" });
});

test("the first administrator enrolls too", async () => {
  const password = { reveal: () => "first admin's password" };
  await bootstrapAdmin(deps, { email: "root@example.com", password: password as never });
  const tempToken = await tokenOf(logIn("root@example.com", "first admin's password"));
  const { secret } = await setUp(tempToken);
  expect(await complete(tempToken, codeOf(secret))).toMatchObject({
    kind: "completed",
    user: { role: "ADMIN", mfaEnabled: true },
  });
});

test("the token is stored as a hash, and opens neither another step of a login nor a second enrollment", async () => {
  const tempToken = await asked();
  const rows = await database.ownerSql`select * from mfa_enrollment_challenges`;
  expect(rows).toHaveLength(1);
  expect(JSON.stringify(rows)).not.toContain(tempToken);
  const { secret } = await setUp(tempToken);
  const code = codeOf(secret);
  expect(await failure(completeMfaLogin(deps, { tempToken, code, ...NEW_DEVICE }, context()))).toBe(
    "mfa_token_invalid",
  );
  const change = { tempToken, newPassword: "an entirely new password", ...NEW_DEVICE };
  expect(await failure(changePasswordAtLogin(deps, change, context()))).toBe("password_change_token_invalid");
  await complete(tempToken, code);
  nowMs += 30_000;
  expect(await failure(setUp(tempToken))).toBe("mfa_token_invalid");
  expect(await failure(complete(tempToken, codeOf(secret)))).toBe("mfa_token_invalid");
});

test("the token of a login that waits for a code enrolls nothing", async () => {
  const { secret } = await enrolled();
  nowMs += 30_000;
  const challenge = await logIn();
  if (challenge.kind !== "mfaChallenge") throw new Error("not asked for a code");
  expect(await failure(setUp(challenge.tempToken))).toBe("mfa_token_invalid");
  expect(await failure(complete(challenge.tempToken, codeOf(secret)))).toBe("mfa_token_invalid");
});

test.each(["", "x", "A".repeat(43), "\0".repeat(43)])("%j is no login", async (tempToken) => {
  expect(await failure(setUp(tempToken))).toBe("mfa_token_invalid");
  expect(await failure(complete(tempToken, "123456"))).toBe("mfa_token_invalid");
});

test("it ends after 15 minutes", async () => {
  const tempToken = await asked();
  nowMs += 15 * 60_000 - 1;
  const { secret } = await setUp(tempToken);
  nowMs += 1;
  expect(await failure(complete(tempToken, codeOf(secret)))).toBe("mfa_token_invalid");
  expect(await isEnabled()).toBe(false);
});

test("it takes ten set-ups and codes together, also at once", async () => {
  const tempToken = await asked();
  const { secret } = await setUp(tempToken);
  const wrong = Array.from({ length: 30 }, () => failure(complete(tempToken, "AAAA-AAAA-AAAA-AAAA")));
  const results = await Promise.all(wrong);
  expect(Map.groupBy(results, (code) => code).get("mfa_code_invalid")).toHaveLength(9);
  expect(await failure(complete(tempToken, codeOf(secret)))).toBe("mfa_token_invalid");
  expect(await failure(setUp(tempToken))).toBe("mfa_token_invalid");
});

test("two enrollments at once: one factor, one session; the other login is over", async () => {
  const [first, second] = [await asked(), await asked()];
  await setUp(first);
  const { secret } = await setUp(second);
  const code = codeOf(secret);
  const results = await Promise.all([failure(complete(first, code)), failure(complete(second, code))]);
  expect(results.sort()).toEqual(["done", "mfa_token_invalid"]);
  expect(deps.tokenService.issueSession).toHaveBeenCalledTimes(1);
  expect(await database.ownerSql`select from mail_outbox where template = 'mfa-enabled'`).toHaveLength(1);
});

test.each<[string, () => Promise<unknown>]>([
  ["a change of role", () => setUserAccess(deps, { userId, role: "USER" }, asOperator())],
  ["a disable", () => setUserAccess(deps, { userId, status: "disabled" }, asOperator())],
  ["an end of the sessions", () => endUserSessions(deps, userId, asOperator())],
  ["an erasure", () => database.ownerSql`delete from users`],
])("it dies by %s", async (_what, end) => {
  const tempToken = await asked();
  const { secret } = await setUp(tempToken);
  await end();
  expect(await failure(complete(tempToken, codeOf(secret)))).toBe("mfa_token_invalid");
  expect(await failure(setUp(tempToken))).toBe("mfa_token_invalid");
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
});

test("the last factor of such a user cannot be removed; of another user it can", async () => {
  await proveCredentials(database.ownerSql, userId);
  const { secret } = await enrolled();
  nowMs += 30_000;
  const disable = () => {
    const proof = { userId, sessionId: SESSION, password: ANNA.password, code: codeOf(secret), ...FROM };
    return disableTotp(deps, { ...sessionAt(deps), ...proof }, context());
  };
  expect(await failure(disable())).toBe("mfa_required");
  expect(await isEnabled()).toBe(true);
  await setRole("USER");
  expect(await failure(disable())).toBe("done");
});

test("a user who gets such a role, or whose factor is reset, enrolls at the next login", async () => {
  await setRole("USER");
  expect(await logIn()).toMatchObject({ kind: "completed" });
  const { sessionIds } = await setUserAccess(deps, { userId, role: "AUDITOR" }, asOperator());
  expect(sessionIds).toEqual([]);
  expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({ reason: "role_changed" });
  await enrolled();
  await resetUserMfa(deps, userId, asOperator());
  expect(await logIn()).toMatchObject({ kind: "mfaEnrollment" });
});

test("the owner is mailed, and the link takes back what somebody with the password alone has set up", async () => {
  await proveCredentials(database.ownerSql, userId);
  await enrolled();
  const [mail] = await database.ownerSql<{ recipient: string; data: { link: string } }[]>`
    select recipient, data from mail_outbox where template = 'mfa-enabled'`;
  expect(mail?.recipient).toBe(ANNA.email);
  nowMs += 7 * 24 * 3_600_000 - 1;
  const token = deps.linkTokens.tokenOf(mail?.data.link.split(":")[1] ?? "");
  await undoAccessChange(deps, token, context());
  expect(await isEnabled()).toBe(false);
  expect(await failure(logIn())).toBe("invalid_credentials");
});

test("the audit log has the enrollment with its user, and no secret", async () => {
  const { secret, tempToken, result } = await enrolled();
  const events = await database.ownerSql`
    select type, actor_id, ip from security_events where user_id = ${userId} and type = 'mfa_enabled'`;
  expect(events).toEqual([{ type: "mfa_enabled", actor_id: userId, ip: FROM.clientIp }]);
  const stored =
    JSON.stringify(await database.ownerSql`select * from security_events`) + deps.logLines.join();
  for (const text of [secret, tempToken, ...result.recoveryCodes]) expect(stored).not.toContain(text);
});

test("while token-service is away no session begins; the factor is on, and a code logs in", async () => {
  const tempToken = await asked();
  const { secret } = await setUp(tempToken);
  deps.tokenService.revokeUserSessions.mockRejectedValueOnce(new DomainError("service_unavailable"));
  expect(await failure(complete(tempToken, codeOf(secret)))).toBe("service_unavailable");
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  nowMs += 30_000;
  expect(await logIn()).toMatchObject({ kind: "mfaChallenge" });
});

test("ended ones are deleted after a day", async () => {
  await asked();
  nowMs += 24 * 3_600_000 + 15 * 60_000;
  await deleteEndedLogins(deps);
  expect(await database.ownerSql`select from mfa_enrollment_challenges`).toHaveLength(1);
  nowMs += 1;
  await deleteEndedLogins(deps);
  expect(await database.ownerSql`select from mfa_enrollment_challenges`).toHaveLength(0);
});

test("a disabled account sets up nothing, whatever ended its sessions", async () => {
  const tempToken = await asked();
  await database.ownerSql`update users set status = 'disabled' where id = ${userId}`;
  expect(await failure(setUp(tempToken))).toBe("mfa_token_invalid");
});

test("a token that has enrolled a factor is used up, even if no session had ended", async () => {
  const [before] = await database.ownerSql<{ epoch: number }[]>`
    select session_epoch as epoch from users where id = ${userId}`;
  const { tempToken } = await enrolled();
  await database.ownerSql`delete from totp_credentials where user_id = ${userId}`;
  await database.ownerSql`update users set session_epoch = ${before?.epoch ?? -1} where id = ${userId}`;
  expect(await failure(setUp(tempToken))).toBe("mfa_token_invalid");
});
