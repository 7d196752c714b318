import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { parseAccessFile } from "#access-file/access-file.ts";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import type { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { resetPassword } from "../accounts/reset-password.ts";
import { logIn as logInWith } from "../login/log-in.ts";
import type { MailName } from "../mail/mail.ts";
import { proveCredentials, startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { readOutbox, tokensIn } from "../testing/test-mails.ts";
import { endUserSessions } from "./end-user-sessions.ts";
import { inviteUser } from "./invite-user.ts";
import { mailUser, type UserLink } from "./mail-user.ts";
import { removeUserPasskey } from "./reset-user-mfa.ts";

let database: TestDatabase;
let deps: TestDeps;
let anna: string;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, userId: anna } = await startWithAnna(database));
  await database.ownerSql`delete from mail_outbox`;
  await database.ownerSql`delete from counted_mails`;
  await database.ownerSql`delete from security_events`;
});
afterAll(() => database.drop());

const DAY_MS = 24 * 3_600_000;
const PASSWORD = "an entirely new password";
const support = (role = "SUPPORT"): CallContext => ({
  ...newCallContext({ budgetMs: 60_000 }),
  actor: { userId: deps.newId(), sessionId: deps.newId(), role },
});
const later = (ms: number) => ({ ...deps, now: () => new Date(deps.now().getTime() + ms) });
const bob = {
  email: "Bob@Example.com",
  firstName: "Bob",
  lastName: "",
  role: undefined as string | undefined,
  reason: "Ticket 4711",
};
const invite = (changes: Partial<typeof bob> = {}, who = support()) =>
  inviteUser(deps, { ...bob, ...changes }, who);
const mail = (userId: string, link: UserLink, with_ = deps) =>
  mailUser(with_, { userId, link, reason: "" }, support());
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
const templates = async () => (await readOutbox(database.ownerSql)).map(({ template }) => template);
const tokenOf = async (template: MailName) =>
  (await tokensIn(database.ownerSql, deps.linkTokens, template)).at(-1) ?? "";
const logIn = (password: string) =>
  logInWith(
    deps,
    { email: bob.email, password, clientIp: "", userAgent: "", deviceToken: "" },
    newCallContext({ budgetMs: 60_000 }),
  );
const events = () =>
  database.ownerSql<{ type: string; reason: string }[]>`select type, reason from security_events order by id`;

test("whoever is invited sets their own password within 7 days, which proves the address", async () => {
  const user = await invite();
  expect(user).toMatchObject({
    email: "bob@example.com",
    role: "USER",
    passwordHash: null,
    emailVerified: false,
  });
  expect(await codeOf(logIn("Password123!"))).toBe("invalid_credentials");
  expect(await events()).toEqual([{ type: "invited", reason: "USER: Ticket 4711" }]);
  const [sent] = await readOutbox(database.ownerSql);
  expect(sent).toMatchObject({ template: "invitation", recipient: "bob@example.com" });
  const use = { token: await tokenOf("invitation"), newPassword: PASSWORD };
  const context = () => newCallContext({ budgetMs: 60_000 });
  expect(await codeOf(resetPassword(later(7 * DAY_MS), use, context()))).toBe("reset_token_invalid");
  await resetPassword(later(7 * DAY_MS - 1), use, context());
  expect(await codeOf(logIn(PASSWORD))).toBe("done");
  const [proven] = await database.ownerSql`select email_verified as proven from users where id = ${user.id}`;
  expect(proven).toEqual({ proven: true });
  expect(await codeOf(resetPassword(deps, use, context()))).toBe("reset_token_invalid");
});

test("an open invitation does not make it easier to block the reset of whoever was invited", async () => {
  const { id } = await invite();
  for (let round = 1; round <= 12; round += 1)
    expect([round, await codeOf(mail(id, "reset", later(round * 31 * 60_000)))]).toEqual([round, "done"]);
});

test("an address with an account is a conflict, only for those who may read users", async () => {
  deps.access.replace(
    parseAccessFile(
      'roles: { ADMIN: ["*"], USER: [], BLIND: [users:help], SUPPORT: [users:help, users:read] }\ndefaultRole: USER',
    ),
  );
  expect(await codeOf(invite({ email: "anna@example.com" }))).toBe("email_already_registered");
  expect(await codeOf(invite({ email: "anna@example.com" }, support("BLIND")))).toBe("forbidden");
  expect(await codeOf(invite({ email: "nobody@" }))).toBe("validation_failed");
  expect(await codeOf(invite({ firstName: " " }))).toBe("validation_failed");
  expect(await templates()).toEqual([]);
  expect(await events()).toEqual([]);
});

test("another role than that of new accounts can be given by those who may assign it", async () => {
  expect(await codeOf(invite({ role: "ADMIN" }))).toBe("forbidden");
  expect(await codeOf(invite({ role: "SUPPORT" }))).toBe("forbidden");
  expect(await codeOf(invite({ role: "NOWHERE" }, support("ADMIN")))).toBe("validation_failed");
  expect((await invite({ role: "AUDITOR" }, support("ADMIN"))).role).toBe("AUDITOR");
});

test("the confirmation of somebody who was invited is the invitation again, within the limit of mails", async () => {
  const { id } = await invite();
  await mail(id, "confirmation");
  expect(await templates()).toEqual(["invitation", "invitation"]);
  for (let sent = 2; sent < deps.mailLimits.strangersPerHour; sent += 1) await mail(id, "confirmation");
  expect(await codeOf(mail(id, "confirmation"))).toBe("conflict");
  expect((await templates()).length).toBe(deps.mailLimits.strangersPerHour);
  expect(await codeOf(invite())).toBe("email_already_registered");
});

test("an invitation that the limit of mails withholds makes no account", async () => {
  const { id } = await invite();
  await database.ownerSql`delete from users where id = ${id}`;
  for (let sent = 1; sent < deps.mailLimits.strangersPerHour; sent += 1) {
    const { id: again } = await invite();
    await database.ownerSql`delete from users where id = ${again}`;
  }
  expect(await codeOf(invite())).toBe("conflict");
  expect(await database.ownerSql`select from users where email = 'bob@example.com'`).toEqual([]);
});

test("support sends links to the account's address alone, and says why", async () => {
  await mail(anna, "confirmation");
  await mail(anna, "reset");
  const sent = await readOutbox(database.ownerSql);
  expect(sent.map(({ template, recipient }) => [template, recipient])).toEqual([
    ["verify-email", "anna@example.com"],
    ["reset-password", "anna@example.com"],
  ]);
  expect(await events()).toEqual([
    { type: "link_mailed", reason: "confirmation" },
    { type: "link_mailed", reason: "reset" },
  ]);
});

test("there is no confirmation of a proven address, no link to a disabled account, and none beyond the limit", async () => {
  await proveCredentials(database.ownerSql, anna);
  expect(await codeOf(mail(anna, "confirmation"))).toBe("conflict");
  for (let sent = 0; sent < 3; sent += 1) await mail(anna, "reset");
  expect(await codeOf(mail(anna, "reset"))).toBe("conflict");
  await database.ownerSql`update users set status = 'disabled' where id = ${anna}`;
  expect(await codeOf(mail(anna, "reset", later(DAY_MS)))).toBe("conflict");
  expect(await codeOf(mail(deps.newId(), "reset"))).toBe("not_found");
  expect((await templates()).length).toBe(3);
});

const endSession = (sessionId: string, { userId = anna, who = support() } = {}) =>
  endUserSessions(deps, userId, who, { sessionId, reason: "Ticket 4711" });

test("support ends one live session of a user, for a reason, and none of whoever may administer more", async () => {
  const { revokeSession, isSessionLive } = deps.tokenService;
  const sessionId = deps.newId();
  await database.ownerSql`update users set role = 'ADMIN' where id = ${anna}`;
  expect(await codeOf(endSession(sessionId))).toBe("forbidden");
  await database.ownerSql`update users set role = 'USER' where id = ${anna}`;
  isSessionLive.mockResolvedValueOnce(false);
  expect(await codeOf(endSession(sessionId))).toBe("not_found");
  expect(await codeOf(endSession("s1"))).toBe("not_found");
  expect(await codeOf(endSession(sessionId, { userId: deps.newId() }))).toBe("not_found");
  expect(revokeSession).not.toHaveBeenCalled();
  expect(await events()).toEqual([]);
  expect(await endSession(sessionId)).toEqual([sessionId]);
  expect(isSessionLive).toHaveBeenLastCalledWith({ userId: anna, sessionId }, expect.anything());
  const which = { sessionId, userId: anna, reason: "ended_by_admin" };
  expect(revokeSession.mock.calls.map(([call]: unknown[]) => call)).toEqual([which]);
  expect(deps.tokenService.revokeUserSessions).not.toHaveBeenCalled();
  expect(await events()).toEqual([{ type: "session_ended", reason: `${sessionId}: Ticket 4711` }]);
});

async function plantPasskey(name: string): Promise<string> {
  const id = deps.newId();
  await database.ownerSql`
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible,
      is_backed_up, name, created_at)
    values (${id}, ${anna}, ${Buffer.from(id)}, ${Buffer.alloc(1)}, 0, '{}', false, false, ${name}, now())`;
  return id;
}
const passkeyNames = async () =>
  (await database.ownerSql<{ name: string }[]>`select name from passkeys`).map(({ name }) => name);
const removePasskey = (passkeyId: string, { userId = anna, who = support() } = {}) =>
  removeUserPasskey(deps, { userId, passkeyId, reason: "Ticket 4711" }, who);

test("support removes one lost passkey: sessions end, the owner gets the mail, and the log names who did it", async () => {
  const lost = await plantPasskey("Lost");
  await plantPasskey("Kept");
  await database.ownerSql`update users set role = 'ADMIN' where id = ${anna}`;
  expect(await codeOf(removePasskey(lost))).toBe("forbidden");
  await database.ownerSql`update users set role = 'USER' where id = ${anna}`;
  expect(await codeOf(removePasskey(deps.newId()))).toBe("not_found");
  expect(await codeOf(removePasskey(lost, { userId: deps.newId() }))).toBe("not_found");
  expect(await passkeyNames()).toHaveLength(2);
  const who = support();
  await removePasskey(lost, { who });
  expect(await passkeyNames()).toEqual(["Kept"]);
  const ended = { userId: anna, exceptSessionId: null, reason: "passkey_removed" };
  expect(deps.tokenService.revokeUserSessions).toHaveBeenCalledExactlyOnceWith(ended, expect.anything());
  const sent = await readOutbox(database.ownerSql);
  expect(sent.map(({ template, recipient }) => [template, recipient])).toEqual([
    ["passkey-removed", "anna@example.com"],
  ]);
  const [event] = await database.ownerSql`select type, actor_id as by, reason from security_events`;
  expect(event).toEqual({ type: "passkey_removed", by: who.actor?.userId, reason: "Ticket 4711" });
});

test("the last passkey goes as with a reset of all factors, and its owner is not blamed for an operator's act", async () => {
  const lost = await plantPasskey("Lost");
  await database.ownerSql`insert into recovery_codes values (${anna}, ${Buffer.alloc(32)}, now())`;
  const operator: CallContext = { ...newCallContext({ budgetMs: 60_000 }), person: "ops" };
  await removePasskey(lost, { who: operator });
  expect(await passkeyNames()).toEqual([]);
  expect(await database.ownerSql`select from recovery_codes`).toEqual([]);
  const [event] = await database.ownerSql`select actor_id as by, person from security_events`;
  expect(event).toEqual({ by: null, person: "ops" });
});
