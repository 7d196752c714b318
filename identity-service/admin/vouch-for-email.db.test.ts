import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import type { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { confirmEmailChange } from "../accounts/confirm-email-change.ts";
import { forgotPassword } from "../accounts/mail-a-link.ts";
import { register } from "../accounts/register.ts";
import { resetPassword } from "../accounts/reset-password.ts";
import { undoEmailChange } from "../accounts/undo-change.ts";
import type { MailName } from "../mail/mail.ts";
import { checkLink } from "../mail/use-link.ts";
import { ANNA, proveCredentials, startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { readOutbox, tokensIn } from "../testing/test-mails.ts";
import { findAccountById } from "../users/account-store.ts";
import { setUserAccess, type UserAccess } from "./set-user-access.ts";

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, userId } = await startWithAnna(database));
  await proveCredentials(database.ownerSql, userId);
  for (const table of ["mail_outbox", "counted_mails", "security_events"])
    await database.ownerSql`delete from ${database.ownerSql(table)}`;
});
afterAll(() => database.drop());

const NEW = "anna@new.example";
const PASSWORD = "an entirely new password";
const nobody = () => newCallContext({ budgetMs: 60_000 });
const admin = (role = "ADMIN"): CallContext => ({
  ...nobody(),
  actor: { userId: deps.newId(), sessionId: deps.newId(), role },
});
const change = (access: Omit<UserAccess, "userId">, who = admin()) =>
  setUserAccess(deps, { userId, actReason: "Ticket 4711", ...access }, who);
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
const account = async () => {
  const found = await findAccountById(database.ownerSql, userId);
  if (found === undefined) throw new Error("the account is gone");
  return found;
};
const tokenOf = async (template: MailName) =>
  (await tokensIn(database.ownerSql, deps.linkTokens, template)).at(-1) ?? "";
const confirm = (token: string, sessionUserId = "") =>
  confirmEmailChange(deps, { token, sessionUserId, password: "", clientIp: "" }, nobody());
const sent = async () =>
  (await readOutbox(database.ownerSql)).map(({ template, recipient }) => [template, recipient]);
const events = () => database.ownerSql`
  select type, reason, actor_id as actor from security_events where type <> 'role_changed' order by id`;

async function vouched(): Promise<string> {
  await change({ email: "Anna@New.Example" });
  return tokenOf("confirm-vouched-email");
}

test("an address changes by the link alone, which ends every session; both addresses are told", async () => {
  const who = admin();
  const { user } = await change({ email: NEW }, who);
  expect(user.email).toBe(ANNA.email);
  expect((await account()).email).toBe(ANNA.email);
  expect(await sent()).toEqual([
    ["confirm-vouched-email", NEW],
    ["email-change-begun", ANNA.email],
  ]);
  expect(deps.tokenService.revokeUserSessions).not.toHaveBeenCalled();
  const token = await tokenOf("confirm-vouched-email");
  const asked = { token, purpose: "confirm_email_change" };
  expect(await checkLink(deps, asked)).toEqual({ email: NEW, isVouched: true });

  deps.tokenService.revokeUserSessions.mockResolvedValueOnce(["s1"]);
  expect(await confirm(token)).toMatchObject({
    user: { email: NEW, emailVerified: true },
    sessionIds: ["s1"],
  });
  expect(await codeOf(confirm(token))).toBe("verification_token_invalid");
  expect((await sent()).at(-1)).toEqual(["email-changed", ANNA.email]);
  expect(await events()).toEqual([
    { type: "link_mailed", reason: "new address: Ticket 4711", actor: who.actor?.userId },
    { type: "email_changed", reason: "vouched for", actor: null },
  ]);
});

test("the new mailbox does not take the second factor away, and the old one gets everything back", async () => {
  await database.ownerSql`
    insert into totp_credentials (user_id, secret_encrypted, key_id, created_at, confirmed_at)
    values (${userId}, ${Buffer.alloc(48)}, 'aaaaaaaaaaaaaaaa', '2026-01-01', '2026-01-01')`;
  await confirm(await vouched());
  expect(await account()).toMatchObject({ email: NEW, mfaEnabled: true });
  expect((await account()).credentialsProvenAt).not.toBeNull();
  await forgotPassword(deps, { email: NEW });
  await deps.afterAnswer.drained();
  const reset = { token: await tokenOf("reset-password"), newPassword: PASSWORD };
  await resetPassword(deps, reset, nobody());
  expect(await account()).toMatchObject({ email: NEW, mfaEnabled: true });
  await undoEmailChange(deps, await tokenOf("email-changed"), nobody());
  expect(await account()).toMatchObject({ email: ANNA.email, mfaEnabled: true, passwordHash: null });
});

test("credentials that nobody had proven are not proven by it, and an address that nobody confirmed hears nothing", async () => {
  await database.ownerSql`
    update users set email_verified = false, credentials_proven_email = null, credentials_proven_at = null`;
  await confirm(await vouched());
  expect(await account()).toMatchObject({ email: NEW, emailVerified: true, credentialsProvenAt: null });
  expect(await sent()).toEqual([["confirm-vouched-email", NEW]]);
});

test("another account's session neither disturbs the link nor is touched by it", async () => {
  const token = await vouched();
  expect((await confirm(token, deps.newId())).user.id).toBe(userId);
});

test.each<[string, Omit<UserAccess, "userId">[]]>([
  ["another role", [{ role: "ADMIN" }]],
  ["a disabled account, also enabled again", [{ status: "disabled" }, { status: "active" }]],
])("the link ends with %s", async (_, changes) => {
  const token = await vouched();
  await change({ firstName: "Anne" });
  expect(await codeOf(checkLink(deps, { token, purpose: "confirm_email_change" }))).toBe("done");
  for (const each of changes) await change(each);
  expect(await codeOf(confirm(token))).toBe("verification_token_invalid");
  expect((await account()).email).toBe(ANNA.email);
});

test("of a change that is refused, nothing stays", async () => {
  await register(deps, { ...ANNA, email: "ben@example.com" }, Date.now() + 60_000);
  for (const table of ["mail_outbox", "security_events"])
    await database.ownerSql`delete from ${database.ownerSql(table)}`;
  expect(await codeOf(change({ email: "ben@example.com", role: "AUDITOR" }))).toBe(
    "email_already_registered",
  );
  expect(await codeOf(change({ email: "nobody@" }))).toBe("validation_failed");
  expect(await codeOf(change({ email: NEW, status: "disabled" }))).toBe("conflict");
  await database.ownerSql`update users set role = 'ADMIN' where id = ${userId}`;
  expect(await codeOf(change({ email: NEW }, admin("SUPPORT")))).toBe("forbidden");
  expect(
    await codeOf(change({ email: NEW }, { ...admin(), actor: { userId, sessionId: "", role: "ADMIN" } })),
  ).toBe("forbidden");
  expect(await sent()).toEqual([]);
  expect(await events()).toEqual([]);
  expect((await account()).role).toBe("ADMIN");
});

test("the present address takes back a link that went to a wrong one", async () => {
  const token = await vouched();
  await change({ email: ANNA.email.toUpperCase() });
  expect(await codeOf(confirm(token))).toBe("verification_token_invalid");
  expect((await account()).email).toBe(ANNA.email);
});

test("the present address changes nothing, and three links an hour are enough", async () => {
  await change({ email: ANNA.email.toUpperCase() });
  expect(await sent()).toEqual([]);
  for (const name of ["a", "b", "c"]) await change({ email: `${name}@new.example` });
  expect(await codeOf(change({ email: NEW }))).toBe("conflict");
  const [first = "", second = "", third = ""] = await tokensIn(
    database.ownerSql,
    deps.linkTokens,
    "confirm-vouched-email",
  );
  for (const older of [first, second])
    expect(await codeOf(confirm(older))).toBe("verification_token_invalid");
  expect((await confirm(third)).user.email).toBe("c@new.example");
});
