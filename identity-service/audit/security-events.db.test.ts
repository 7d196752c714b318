import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, expect, test, vi } from "vitest";
import { Secret } from "#kit/config/config.ts";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import type { DomainError } from "#kit/values/errors.ts";
import { UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { changePassword } from "../accounts/change-password.ts";
import { updateProfile } from "../accounts/own-account.ts";
import { register } from "../accounts/register.ts";
import { bootstrapAdmin } from "../admin/bootstrap-admin.ts";
import { deleteUser } from "../admin/delete-user.ts";
import { endUserSessions } from "../admin/end-user-sessions.ts";
import { resetUserMfa } from "../admin/reset-user-mfa.ts";
import { setUserAccess } from "../admin/set-user-access.ts";
import { createIdentityRpc } from "../identity-rpc.ts";
import { completeMfaLogin } from "../login/complete-mfa-login.ts";
import { logIn as logInWith } from "../login/log-in.ts";
import { createNoteFailedLogin } from "../login/note-failed-login.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { openAccount } from "../oauth/open-account.ts";
import {
  ANNA,
  proveCredentials,
  sessionAt,
  soon,
  startWithAnna,
  type TestDeps,
} from "../testing/test-deps.ts";
import { createUserAdminRpc } from "../user-admin-rpc.ts";
import { setEmail } from "../users/account-store.ts";
import type { SecurityEvent } from "./security-event-store.ts";
import { createSecurityEventWorker, toAuditEvent } from "./security-event-worker.ts";

const EMAIL = "anna.smith@example.com";
const PASSWORD = "Password123!";
const FROM = { clientIp: "192.0.2.1", userAgent: "curl/8" };
/** Where a login comes from: on a device that is not known. */
const NEW_DEVICE = { ...FROM, deviceToken: "" };
const ADMIN = {
  userId: "019a0000-0000-7000-8000-0000000000ad",
  role: "ADMIN",
  sessionId: "019a0000-0000-7000-8000-0000000000a5",
};

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
  deps = { ...deps, now: () => new Date(nowMs) };
  await emptyTables(database.ownerSql, "security_events");
});
afterAll(() => database.drop());

const context = () => ({ ...newCallContext({ budgetMs: 60_000 }), caller: "gateway" as const });
const asAdmin = () => ({ ...context(), actor: ADMIN });
const events = () =>
  database.ownerSql<{ type: string; userId: string; actorId: string | null; reason: string }[]>`
    select type, user_id as "userId", actor_id as "actorId", reason from security_events order by id`;
const summaries = async () => (await events()).map(({ type, reason }) => `${type} ${reason}`.trim());

/** A worker, and what the audit log has got. */
function worker(record = async (_event: SecurityEvent): Promise<void> => undefined) {
  const recorded: SecurityEvent[] = [];
  const erased: string[] = [];
  const { sql, now, logger } = deps;
  const note = async (event: SecurityEvent) => {
    await record(event);
    recorded.push(event);
  };
  const eraseClaimedEmail = async (email: string) => void erased.push(email);
  const all = { sql, record: note, eraseClaimedEmail, now, logger };
  const delivering = createSecurityEventWorker(all, createMetrics("test"));
  return { recorded, erased, poll: () => delivering.poll(), cleanUp: () => delivering.cleanUp() };
}

test("the age of the oldest event that the audit log has not taken is shown, as token-service shows its own", async () => {
  const { sql, now, logger } = deps;
  const metrics = createMetrics("test");
  let isAway = true;
  const record = async () => {
    if (isAway) throw new Error("away");
  };
  const eraseClaimedEmail = async () => undefined;
  const delivering = createSecurityEventWorker({ sql, record, eraseClaimedEmail, now, logger }, metrics);
  const lag = async () => /^gatehouse_outbox_lag_seconds\{.*\} (\S+)$/m.exec(await metrics.render())?.[1];
  await endUserSessions(deps, userId, asAdmin());
  await delivering.poll();
  nowMs += 60_000;
  await endUserSessions(deps, userId, asAdmin());
  await delivering.poll();
  expect(await lag()).toBe("60");
  isAway = false;
  nowMs += 60_000;
  await delivering.poll();
  expect(await lag()).toBe("0");
});

test("what an administrator does names the administrator, the account and nothing personal", async () => {
  const mustChangePassword = true;
  await setUserAccess(deps, { userId, role: "AUDITOR", status: "disabled", mustChangePassword }, asAdmin());
  await setUserAccess(deps, { userId, status: "active", mustChangePassword: false }, asAdmin());
  await endUserSessions(deps, userId, asAdmin());
  await deleteUser(deps, userId, asAdmin());
  expect(await summaries()).toEqual([
    "role_changed USER to AUDITOR",
    "status_changed disabled",
    "password_change_required",
    "status_changed active",
    "password_change_required not any more",
    "sessions_ended",
    "account_deleted",
  ]);
  for (const event of await events()) expect(event).toMatchObject({ userId, actorId: ADMIN.userId });
  await worker().poll();
  const everything = JSON.stringify(await database.ownerSql`select * from security_events`);
  for (const personal of [EMAIL, "anna", "Smith"])
    expect(everything.toLowerCase()).not.toContain(personal.toLowerCase());
});

test("why an administrator acts is in the entry of each change, after what the service says of it", async () => {
  await database.ownerSql`
    insert into totp_credentials values (${userId}, ${Buffer.alloc(48)}, '0123456789abcdef', now(), now(), 0)`;
  const reason = "ticket 4711";
  const rpc = createUserAdminRpc(deps, async () => undefined);
  const asCaller = () => asAdmin() as unknown as RpcContext;
  const role = "AUDITOR";
  const unchanged = {
    mustChangePassword: undefined,
    role: "",
    disableClients: false,
  };
  const disabled = { ...unchanged, userId, status: UserStatus.DISABLED, role, reason: ` ${reason} ` };
  await rpc.setUserAccess(disabled, asCaller());
  await rpc.setUserAccess({ ...unchanged, userId, status: UserStatus.ACTIVE, reason: "" }, asCaller());
  await rpc.unlockUser({ userId, reason }, asCaller());
  await rpc.endUserSessions({ userId, sessionId: "", reason }, asCaller());
  await rpc.resetUserMfa({ userId, reason }, asCaller());
  await rpc.deleteUser({ userId, reason, disableClients: false }, asCaller());
  expect(await summaries()).toEqual([
    "role_changed USER to AUDITOR: ticket 4711",
    "status_changed disabled: ticket 4711",
    "status_changed active",
    "unlocked ticket 4711",
    "sessions_ended ticket 4711",
    "mfa_reset ticket 4711",
    "account_deleted ticket 4711",
  ]);
});

test("the former addresses of an account are erased with it, except one that another user has by now", async () => {
  const changeTo = (email: string) =>
    transaction(database.sql, (tx) => setEmail(tx, { userId, email, at: deps.now() }));
  await changeTo("second@example.com");
  await changeTo("third@example.com");
  await register(
    deps,
    { email: "second@example.com", password: PASSWORD, firstName: "O", lastName: "T" },
    soon(),
  );
  await emptyTables(database.ownerSql, "security_events");
  await deleteUser(deps, userId, asAdmin());
  expect(await summaries()).toEqual(["account_deleted", "former_address_erased"]);
  const { erased, poll } = worker();
  await poll();
  expect(erased.sort()).toEqual([EMAIL, "third@example.com"]);
  expect(await database.ownerSql`select from former_addresses`).toHaveLength(0);
});

test("a deleted account's address is erased from beside the audit log, again until that is done, and then forgotten here", async () => {
  await deleteUser(deps, userId, asAdmin());
  const failing = worker(async () => Promise.reject(new Error("away")));
  await failing.poll();
  expect(failing.erased).toEqual([]);
  nowMs += 60_000;
  const working = worker();
  await working.poll();
  expect(working.erased).toEqual([EMAIL]);
  expect(await database.ownerSql`select erased_email from security_events`).toEqual([{ erased_email: null }]);
});

test("a call without a change records no event", async () => {
  await setUserAccess(deps, { userId, role: "USER", status: "active", mustChangePassword: false }, asAdmin());
  await resetUserMfa(deps, userId, asAdmin());
  expect(await events()).toEqual([]);
});

test("the second factor, its recovery codes and its wrong codes name whose they are", async () => {
  await proveCredentials(database.ownerSql, userId);
  const { secret } = await beginTotpEnrollment(
    deps,
    { ...sessionAt(deps), userId, password: PASSWORD, ...FROM },
    soon(),
  );
  const code = () => generateSync({ secret, epoch: Math.floor(nowMs / 1_000) });
  const confirmation = { userId, sessionId: deps.newId(), code: code(), ...FROM };
  const { recoveryCodes } = await confirmTotpEnrollment(
    deps,
    { ...sessionAt(deps), ...confirmation },
    context(),
  );
  const result = await logInWith(deps, { email: EMAIL, password: PASSWORD, ...NEW_DEVICE }, context());
  if (result.kind !== "mfaChallenge") throw new Error("not asked for a code");
  const { tempToken } = result;
  const verify = (typed = "") => completeMfaLogin(deps, { tempToken, code: typed, ...NEW_DEVICE }, context());
  await expect(verify("000000")).rejects.toMatchObject({ code: "mfa_code_invalid" });
  await verify(recoveryCodes[0]);
  await resetUserMfa(deps, userId, asAdmin());
  expect(await summaries()).toEqual([
    "mfa_enabled",
    "login_failed wrong_mfa_code",
    "recovery_code_used",
    "mfa_reset",
  ]);
  const { recorded, poll } = worker();
  await poll();
  expect(recorded.map(toAuditEvent)).toContainEqual(
    expect.objectContaining({
      kind: "event",
      action: "user.login_failed",
      actor: {},
      resource: userId,
      outcome: "failure",
      errorCode: "mfa_code_invalid",
      clientIp: FROM.clientIp,
    }),
  );
});

test("an event is there with its effect or not at all", async () => {
  await database.ownerSql`revoke insert on security_events from gatehouse_identity`;
  try {
    const change = {
      userId,
      sessionId: deps.newId(),
      currentPassword: PASSWORD,
      newPassword: "quite another one",
    };
    await expect(
      changePassword(deps, { ...sessionAt(deps, 2), ...change, clientIp: "" }, context()),
    ).rejects.toThrow();
    await expect(setUserAccess(deps, { userId, status: "disabled" }, asAdmin())).rejects.toThrow();
  } finally {
    await database.ownerSql`grant insert on security_events to gatehouse_identity`;
  }
  const result = await logInWith(deps, { email: EMAIL, password: PASSWORD, ...NEW_DEVICE }, context());
  expect(result).toHaveProperty("tokens");
});

test("events reach the audit log once, those of a log that was away later, and are forgotten a day after", async () => {
  await endUserSessions(deps, userId, asAdmin());
  const away = worker(() => Promise.reject(new Error("away")));
  await away.poll();
  const early = worker();
  await early.poll();
  expect(early.recorded).toEqual([]); // leased to the one that failed
  nowMs += 15_000;
  const later = worker();
  await later.poll();
  await later.poll();
  expect(later.recorded.map(({ type }) => type)).toEqual(["sessions_ended"]);
  nowMs += 24 * 3_600_000;
  await later.cleanUp();
  expect(await events()).toHaveLength(1);
  nowMs += 1;
  await later.cleanUp();
  expect(await events()).toEqual([]);
});

test("two replicas deliver a hundred events between them, each once", async () => {
  for (let index = 0; index < 100; index += 1) {
    await database.ownerSql`
      insert into security_events (id, type, user_id, occurred_at, next_attempt_at)
      values (${deps.newId()}, 'unlocked', ${userId}, now(), '2030-01-01')`;
  }
  const [one, two] = [worker(), worker()];
  await Promise.all([one.poll(), two.poll()]);
  const ids = [...one.recorded, ...two.recorded].map(({ id }) => id);
  expect([ids.length, new Set(ids).size]).toEqual([100, 100]);
});

test("a refused login is recorded with reason and account, with equal work for every reason", async () => {
  const rpc = createIdentityRpc({ ...deps, loginRequiresVerifiedEmail: true });
  const attempt = (email: string, password: string) =>
    rpc.login({ email, password, ...FROM, deviceToken: "" }, context()).then(
      () => "done",
      (error: DomainError) => error.code,
    );
  await attempt("nobody@example.com", PASSWORD);
  await attempt(EMAIL, "wrong");
  await attempt(EMAIL, PASSWORD);
  await database.ownerSql`update users set status = 'disabled'`;
  await attempt(EMAIL, PASSWORD);
  await database.ownerSql`update users set status = 'active'`;
  for (let round = 0; round < 5; round += 1) await attempt(EMAIL, "wrong");
  const noted = deps.noteFailedLogin.mock.calls.map(([failed]) => failed);
  expect(noted.slice(0, 4)).toEqual([
    { userId: undefined, reason: "unknown_account", code: "invalid_credentials", ...FROM },
    { userId, reason: "wrong_password", code: "invalid_credentials", ...FROM },
    { userId, reason: "email_not_verified", code: "email_not_verified", ...FROM },
    { userId, reason: "account_disabled", code: "invalid_credentials", ...FROM },
  ]);
  expect(noted.at(-1)).toEqual({ userId, reason: "locked", code: "invalid_credentials", ...FROM });
});

test("an absent audit log delays no refusal, and lost events are counted", async () => {
  const recordEvent = vi.fn(() => Promise.reject(new Error("full")));
  const metrics = createMetrics("test");
  const note = createNoteFailedLogin({ recordEvent }, { ...deps, metrics });
  note({ userId, reason: "wrong_password", code: "invalid_credentials", ...FROM }, context());
  note({ userId: undefined, reason: "unknown_account", code: "invalid_credentials", ...FROM }, context());
  await expect.poll(() => metrics.render()).toMatch(/gatehouse_failed_logins_not_recorded_total\S* 2/);
  expect(recordEvent.mock.calls.map(([event]: unknown[]) => event)).toMatchObject([
    { action: "user.login_failed", actor: {}, resource: userId, reason: "wrong_password" },
    { action: "user.login_failed", actor: {}, resource: "", reason: "unknown_account" },
  ]);
});

test("a new account and a change of its profile are recorded in the transaction", async () => {
  const registered = await register(
    deps,
    { email: "new@example.com", password: PASSWORD, firstName: "N", lastName: "W", clientIp: "192.0.2.9" },
    soon(),
  );
  await updateProfile(deps, { userId: registered.id, firstName: "New" }, context());
  const arrival = {
    ...FROM,
    party: { name: "demo", displayName: "Demo", issuer: "https://issuer.example" },
    person: {
      subject: "s1",
      email: "fed@example.com",
      isEmailVerified: true,
      firstName: "F",
      lastName: "E",
      language: undefined,
    },
    language: "",
  };
  const { account: user } = await openAccount(deps, arrival, context());
  expect(await events()).toEqual([
    { type: "user_registered", userId: registered.id, actorId: null, reason: "" },
    { type: "profile_updated", userId: registered.id, actorId: registered.id, reason: "" },
    { type: "user_registered", userId: user.id, actorId: user.id, reason: "demo" },
    { type: "identity_linked", userId: user.id, actorId: user.id, reason: "demo" },
  ]);
});

test("the first administrator is recorded once, whatever the number of replicas", async () => {
  const admin = { email: "admin@example.com", password: new Secret("first password of all") };
  await Promise.all([bootstrapAdmin(deps, admin), bootstrapAdmin(deps, admin)]);
  expect(await events()).toMatchObject([
    { type: "admin_bootstrapped", actorId: null, reason: "by configuration" },
  ]);
});

test("the event of a wrong second factor has no actor", async () => {
  await proveCredentials(database.ownerSql, userId);
  const { secret } = await beginTotpEnrollment(
    deps,
    { ...sessionAt(deps), userId, password: PASSWORD, ...FROM },
    soon(),
  );
  const code = generateSync({ secret, epoch: Math.floor(nowMs / 1_000) });
  await confirmTotpEnrollment(
    deps,
    { ...sessionAt(deps), userId, sessionId: ADMIN.sessionId, code, ...FROM },
    context(),
  );
  await emptyTables(database.ownerSql, "security_events");
  const pending = await logInWith(deps, { email: EMAIL, password: PASSWORD, ...NEW_DEVICE }, context());
  if (pending.kind !== "mfaChallenge") throw new Error("no second factor was asked for");
  const attempt = { tempToken: pending.tempToken, code: "000000", ...NEW_DEVICE };
  await expect(completeMfaLogin(deps, attempt, context())).rejects.toMatchObject({
    code: "mfa_code_invalid",
  });
  expect(await events()).toEqual([{ type: "login_failed", userId, actorId: null, reason: "wrong_mfa_code" }]);
});
