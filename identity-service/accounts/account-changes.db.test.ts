import { generateSync } from "otplib";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { insertFlow } from "../identities/oauth-store.ts";
import { createAfterAnswer } from "../mail/after-answer.ts";
import type { MailName } from "../mail/mail.ts";
import { makeLink } from "../mail/make-link.ts";
import { openLink } from "../mail/use-link.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { TestAuthenticator } from "../passkeys/authenticator.fixture.ts";
import { beginPasskeyRegistration, registerPasskey } from "../passkeys/register-passkey.ts";
import { endOwnSessions } from "../sessions/end-sessions.ts";
import {
  ANNA,
  proveCredentials,
  sessionAt,
  soon,
  startWithAnna,
  type TestDeps,
} from "../testing/test-deps.ts";
import { readOutbox, tokensIn } from "../testing/test-mails.ts";
import { lockAddresses } from "../users/user-store.ts";
import { changeEmail } from "./change-email.ts";
import { changePassword } from "./change-password.ts";
import { confirmEmailChange as confirmChange } from "./confirm-email-change.ts";
import { deleteAccount } from "./delete-account.ts";
import { forgotPassword } from "./mail-a-link.ts";
import { updateProfile } from "./own-account.ts";
import { register } from "./register.ts";
import { resetPassword } from "./reset-password.ts";
import { undoEmailChange } from "./undo-change.ts";
import { verifyEmail } from "./verify-email.ts";

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, userId } = await startWithAnna(database));
  await proveCredentials(database.ownerSql, userId);
});
afterAll(() => database.drop());

const IP = "192.0.2.1";
const NEW = "an entirely new password";
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const SESSION = "019a0000-0000-7000-8000-0000000000aa";
const context = () => newCallContext({ budgetMs: 60_000 });
const confirmEmailChange = (withDeps: Parameters<typeof confirmChange>[0], token: string) =>
  confirmChange(withDeps, { token, sessionUserId: userId, password: "", clientIp: IP }, context());
const later = (ms: number) => ({ ...deps, now: () => new Date(deps.now().getTime() + ms) });
const mails = async (template: MailName) =>
  (await readOutbox(database.ownerSql)).filter((mail) => mail.template === template);
const last = async (template: MailName) =>
  (await tokensIn(database.ownerSql, deps.linkTokens, template)).at(-1) ?? "";
const addressOf = async (id: string) =>
  (await database.ownerSql<{ email: string }[]>`select email from users where id = ${id}`)[0]?.email;

const change = (currentPassword: string, newPassword = NEW, sessionId = SESSION) =>
  changePassword(
    deps,
    { ...sessionAt(deps), userId, sessionId, currentPassword, newPassword, clientIp: IP },
    context(),
  );
const erase = (password: string, id = userId) =>
  deleteAccount(deps, { ...sessionAt(deps), userId: id, password, clientIp: IP }, context());

async function wantAddress(newEmail: string, password = ANNA.password, with_ = deps): Promise<string> {
  await changeEmail(with_, { ...sessionAt(deps), userId, newEmail, password, clientIp: IP }, soon());
  await deps.afterAnswer.drained();
  return last("confirm-email-change");
}

async function resetLink(): Promise<string> {
  await forgotPassword(deps, { email: (await addressOf(userId)) ?? "" });
  await deps.afterAnswer.drained();
  return last("reset-password");
}

test("a new password needs the current one, ends the other sessions, and sends a mail", async () => {
  await expect(change("not the password")).rejects.toMatchObject({ code: "invalid_credentials" });
  deps.tokenService.revokeUserSessions.mockResolvedValueOnce(["s1"]);
  expect(await change(ANNA.password)).toEqual({ userId, sessionIds: ["s1"] });
  expect(deps.tokenService.revokeUserSessions).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ userId, exceptSessionId: SESSION, reason: "password_changed" }),
    expect.anything(),
  );
  expect(await mails("password-changed")).toMatchObject([{ recipient: ANNA.email }]);
  await expect(change(ANNA.password)).rejects.toMatchObject({ code: "invalid_credentials" });
  await change(NEW, "yet another password");
});

test("a new password is held to the policy and named as the request names it", async () => {
  await expect(change(ANNA.password, "password1")).rejects.toMatchObject({ code: "password_too_common" });
  await expect(change(ANNA.password, "x".repeat(129))).rejects.toMatchObject({
    code: "validation_failed",
    fields: [{ field: "newPassword", code: "too_long" }],
  });
});

test("a new password kills the links that would set another one, or another address", async () => {
  const link = await resetLink();
  const address = await wantAddress("thief@evil.example");
  await change(ANNA.password);
  await expect(resetPassword(deps, { token: link, newPassword: NEW }, context())).rejects.toMatchObject({
    code: "reset_token_invalid",
  });
  await expect(confirmEmailChange(deps, address)).rejects.toMatchObject({
    code: "verification_token_invalid",
  });
});

test("ten changes of one password race: one succeeds", async () => {
  const results = await Promise.allSettled(
    Array.from({ length: 10 }, (_, index) => change(ANNA.password, `another password ${index}`)),
  );
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
});

test("language and time zone of the mails change one by one, and an empty text takes each away", async () => {
  const change = (fields: { language?: string; timeZone?: string }) =>
    updateProfile(deps, { userId, ...fields }, context());
  expect(await change({ language: "pt-br" })).toMatchObject({ language: "pt-BR", timeZone: null });
  expect(await change({ timeZone: "UTC" })).toMatchObject({ language: "pt-BR", timeZone: "UTC" });
  expect(await change({ language: "" })).toMatchObject({ language: null, timeZone: "UTC" });
  await expect(change({ language: "../en", timeZone: "" })).rejects.toMatchObject({
    code: "validation_failed",
    fields: [{ field: "language" }],
  });
  expect(await change({})).toMatchObject({ language: null, timeZone: "UTC" });
});

test("names change one by one or together, and are held to the same rules as at registration", async () => {
  expect(await updateProfile(deps, { userId, firstName: "  Anne " }, context())).toMatchObject({
    firstName: "Anne",
    lastName: "Smith",
  });
  expect(await updateProfile(deps, { userId, lastName: "O'Brien" }, context())).toMatchObject({
    firstName: "Anne",
    lastName: "O'Brien",
  });
  expect(await updateProfile(deps, { userId }, context())).toMatchObject({ firstName: "Anne" });
  expect(await updateProfile(deps, { userId, lastName: " " }, context())).toMatchObject({
    firstName: "Anne",
    lastName: "",
  });
  await expect(
    updateProfile(deps, { userId, firstName: " ", lastName: "a\u0000" }, context()),
  ).rejects.toMatchObject({
    code: "validation_failed",
    fields: [{ field: "firstName" }, { field: "lastName" }],
  });
  await expect(updateProfile(deps, { userId: uuidv7(), firstName: "A" }, context())).rejects.toMatchObject({
    code: "not_found",
  });
});

test("an erased account leaves no personal data, and its address is free, after an hour if it was unproven", async () => {
  await database.ownerSql`
    update users set email_verified = false, credentials_proven_email = null, credentials_proven_at = null`;
  await resetLink();
  await expect(erase("not the password")).rejects.toMatchObject({ code: "invalid_credentials" });
  deps.tokenService.revokeUserSessions.mockResolvedValueOnce([SESSION]);
  expect(await erase(ANNA.password)).toEqual({ userId, sessionIds: [SESSION] });
  for (const table of ["users", "links", "mail_outbox", "session_ends"]) {
    expect(await database.ownerSql`select * from ${database.ownerSql(table)}`, table).toEqual([]);
  }
  const taken = { code: "email_already_registered" };
  await expect(register(deps, ANNA, soon())).rejects.toMatchObject(taken);
  await expect(register(later(HOUR_MS - 1), ANNA, soon())).rejects.toMatchObject(taken);
  const { id } = await register(later(HOUR_MS), ANNA, soon());
  expect(id).not.toBe(userId);
  await database.ownerSql`update users set email_verified = true`;
  await erase(ANNA.password, id);
  await register(later(HOUR_MS), ANNA, soon());
});

test("the last active administrator who can log in stays, and of two that leave at once one does", async () => {
  await database.ownerSql`update users set role = 'ADMIN'`;
  await expect(erase(ANNA.password)).rejects.toMatchObject({ code: "last_admin" });
  const { id: ben } = await register(deps, { ...ANNA, email: "ben@example.com" }, soon());
  await database.ownerSql`update users set role = 'ADMIN', status = 'disabled' where id = ${ben}`;
  await expect(erase(ANNA.password)).rejects.toMatchObject({ code: "last_admin" });
  await database.ownerSql`update users set status = 'active'`;
  const [kept] = await database.ownerSql`select password_hash as hash from users where id = ${ben}`;
  await database.ownerSql`update users set password_hash = null where id = ${ben}`;
  await expect(erase(ANNA.password)).rejects.toMatchObject({ code: "last_admin" });
  await database.ownerSql`update users set password_hash = ${kept?.hash} where id = ${ben}`;
  deps.loginRequiresVerifiedEmail = true;
  await database.ownerSql`update users set email_verified = (id <> ${ben})`;
  await expect(erase(ANNA.password)).rejects.toMatchObject({ code: "last_admin" });
  deps.loginRequiresVerifiedEmail = false;
  const results = await Promise.allSettled([erase(ANNA.password), erase(ANNA.password, ben)]);
  const codes = results.map((result) =>
    result.status === "fulfilled" ? "gone" : (result.reason as DomainError).code,
  );
  expect(codes.sort()).toEqual(["gone", "last_admin"]);
});

test("an address changes when the mail to the new one is confirmed; the old one gets a way back", async () => {
  const token = await wantAddress("Anna@New.Example");
  expect(await mails("confirm-email-change")).toMatchObject([{ recipient: "anna@new.example" }]);
  expect(await addressOf(userId)).toBe(ANNA.email);
  expect(await confirmEmailChange(deps, token)).toMatchObject({
    user: { id: userId, email: "anna@new.example", emailVerified: true },
    sessionIds: [],
  });
  expect(await mails("email-changed")).toMatchObject([{ recipient: ANNA.email }]);
  await expect(confirmEmailChange(deps, token)).rejects.toMatchObject({ code: "verification_token_invalid" });
});

test("a change of address needs the password and an address", async () => {
  await expect(wantAddress("anna@new.example", "wrong")).rejects.toMatchObject({
    code: "invalid_credentials",
  });
  for (const address of ["nonsense", "\uff41nna@new.example"]) {
    await expect(wantAddress(address)).rejects.toMatchObject({
      code: "validation_failed",
      fields: [{ field: "newEmail", code: "invalid_format", message: "must be an e-mail address" }],
    });
  }
  expect(await mails("confirm-email-change")).toEqual([]);
});

test("an address that has an account gets the same answer, and only its owner gets a mail, once an hour", async () => {
  await register(deps, { ...ANNA, email: "ben@example.com" }, soon());
  await wantAddress("ben@example.com");
  await wantAddress("ben@example.com");
  expect(await mails("confirm-email-change")).toEqual([]);
  expect(await mails("address-in-use")).toMatchObject([{ recipient: "ben@example.com" }]);
});

test("an address that got an account in the meantime is not taken over, and the link stays as it was", async () => {
  const token = await wantAddress("ben@example.com");
  const ben = await register(deps, { ...ANNA, email: "ben@example.com" }, soon());
  await expect(confirmEmailChange(deps, token)).rejects.toMatchObject({ code: "verification_token_invalid" });
  expect(await addressOf(userId)).toBe(ANNA.email);
  await erase(ANNA.password, ben.id);
  expect((await confirmEmailChange(deps, token)).user.email).toBe("ben@example.com");
});

test("a change of address ends with the session in which it began, in whatever way that ended", async () => {
  const wanted = { userId, newEmail: "anna@new.example", password: ANNA.password, clientIp: IP };
  await changeEmail(deps, { ...sessionAt(deps), ...wanted, sessionId: SESSION }, soon());
  await deps.afterAnswer.drained();
  const token = await last("confirm-email-change");
  deps.tokenService.isSessionLive.mockResolvedValueOnce(false);
  await expect(confirmEmailChange(deps, token)).rejects.toMatchObject({ code: "verification_token_invalid" });
  expect(await addressOf(userId)).toBe(ANNA.email);
  expect(deps.tokenService.isSessionLive.mock.lastCall?.[0]).toMatchObject({ userId, sessionId: SESSION });
  expect((await confirmEmailChange(deps, token)).user.email).toBe("anna@new.example");
});

test("it ends with the commit that ends the session, while token-service still takes it for live", async () => {
  const begin = async (newEmail: string) => {
    const wanted = { userId, newEmail, password: ANNA.password, clientIp: IP };
    await changeEmail(deps, { ...sessionAt(deps), ...wanted, sessionId: SESSION }, soon());
    await deps.afterAnswer.drained();
    return last("confirm-email-change");
  };
  deps.tokenService.revokeUserSessions.mockRejectedValue(new DomainError("service_unavailable"));
  const end = (exceptSessionId: string) => endOwnSessions(deps, { userId, exceptSessionId }, context());
  const ended = await begin("anna@new.example");
  await expect(end("")).rejects.toMatchObject({ code: "service_unavailable" });
  await expect(confirmEmailChange(deps, ended)).rejects.toMatchObject({ code: "verification_token_invalid" });
  expect(await addressOf(userId)).toBe(ANNA.email);
  const kept = await begin("anna@new.example");
  await expect(end(SESSION)).rejects.toMatchObject({ code: "service_unavailable" });
  expect((await confirmEmailChange(deps, kept)).user.email).toBe("anna@new.example");
});

test.each([
  ["a change of address", () => wantAddress("thief@evil.example")],
  ["a deletion", () => erase(ANNA.password)],
] as const)("sessions that end while the password is checked take %s with them", async (_what, change) => {
  const { verify } = deps.passwords;
  vi.spyOn(deps.passwords, "verify").mockImplementationOnce(async (...given) => {
    await endOwnSessions(deps, { userId, exceptSessionId: "" }, context());
    return verify.apply(deps.passwords, given);
  });
  await change().catch(() => undefined);
  expect(await mails("confirm-email-change")).toEqual([]);
  expect(await addressOf(userId)).toBe(ANNA.email);
});

/** In the session in which the change of address began. */
const owner = (acr: 1 | 2 = 1) => ({
  ...sessionAt(deps, acr),
  ...{ userId, sessionId: SESSION, password: ANNA.password, clientIp: IP, userAgent: "" },
});
async function turnAppOn(acr?: 1 | 2): Promise<void> {
  const { secret } = await beginTotpEnrollment(deps, owner(acr), soon());
  const code = generateSync({ secret, epoch: Math.floor(deps.now().getTime() / 1_000) });
  await confirmTotpEnrollment(deps, { ...owner(acr), code }, context());
}
async function addPasskey(): Promise<void> {
  const attestation = new TestAuthenticator().create(await beginPasskeyRegistration(deps, owner()));
  await registerPasskey(deps, { owner: owner(), name: "Phone", attestation }, context());
}

test.each([
  ["an authenticator app", turnAppOn],
  ["a passkey", addPasskey],
] as const)(
  "a change of address that needed no second factor when it began ends with the first one: %s",
  async (_what, setUp) => {
    const token = await wantAddress("thief@evil.example");
    await setUp();
    const proof = { token, sessionUserId: "", password: ANNA.password, clientIp: IP };
    await expect(confirmChange(deps, proof, context())).rejects.toMatchObject({
      code: "verification_token_invalid",
    });
    expect(await addressOf(userId)).toBe(ANNA.email);
  },
);

test("a change of address that began with a second factor goes on when there is another one", async () => {
  await addPasskey();
  const wanted = { ...owner(2), newEmail: "anna@new.example" };
  await changeEmail(deps, wanted, soon());
  await deps.afterAnswer.drained();
  await turnAppOn(2);
  await confirmEmailChange(deps, await last("confirm-email-change"));
  expect(await addressOf(userId)).toBe("anna@new.example");
});

test("while the state of that session is unknown, the address does not change and the link stays", async () => {
  const wanted = { userId, newEmail: "anna@new.example", password: ANNA.password, clientIp: IP };
  await changeEmail(deps, { ...sessionAt(deps), ...wanted, sessionId: SESSION }, soon());
  await deps.afterAnswer.drained();
  const token = await last("confirm-email-change");
  deps.tokenService.isSessionLive.mockRejectedValueOnce(new DomainError("service_unavailable"));
  await expect(confirmEmailChange(deps, token)).rejects.toMatchObject({ code: "service_unavailable" });
  expect((await confirmEmailChange(deps, token)).user.email).toBe("anna@new.example");
});

test("with SMTP_UTF8=false no address can be taken that no mail can be sent to", async () => {
  const wanted = { userId, newEmail: "jürgen@example.com", password: ANNA.password, clientIp: IP };
  const asked = changeEmail({ ...deps, smtpUtf8: false }, { ...sessionAt(deps), ...wanted }, soon());
  await expect(asked).rejects.toMatchObject({
    code: "validation_failed",
    fields: [{ field: "newEmail", code: "invalid_format", message: expect.stringContaining("ASCII") }],
  });
  expect(await wantAddress("jürgen@example.com")).not.toBe("");
});

test("fifty confirmations race: one succeeds, and one mail goes to the old address", async () => {
  const token = await wantAddress("anna@new.example");
  const results = await Promise.allSettled(Array.from({ length: 50 }, () => confirmEmailChange(deps, token)));
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  expect(await mails("email-changed")).toHaveLength(1);
});

test("an hour has three mails for changes of address", async () => {
  for (let index = 0; index < 5; index += 1) await wantAddress(`anna${index}@new.example`);
  expect(await mails("confirm-email-change")).toHaveLength(3);
});

test("a change of address that gets no mail leaves the link of the mail before it", async () => {
  const token = await wantAddress("anna@new.example");
  const mailLimits = { ...deps.mailLimits, strangersPerHour: 1 };
  expect(await wantAddress("anna@new.example", ANNA.password, { ...deps, mailLimits })).toBe(token);
  expect((await confirmEmailChange(deps, token)).user.email).toBe("anna@new.example");
});

test.each([5, 0])(
  "a link ends with a change to another address, if %i mails are left for that one",
  async (left) => {
    const token = await wantAddress("anna@new.example");
    const mailLimits = { ...deps.mailLimits, strangersPerHour: left };
    await wantAddress("else@example.com", ANNA.password, { ...deps, mailLimits });
    // Addresses with an account get fewer mails: a link that went on would show whether this one has.
    await expect(confirmEmailChange(deps, token)).rejects.toMatchObject({
      code: "verification_token_invalid",
    });
  },
);

test("links mailed to the old address are invalid after the change", async () => {
  const verification = await last("verify-email");
  const reset = await resetLink();
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  await expect(
    verifyEmail(deps, { token: verification, sessionUserId: "", password: "", clientIp: IP }, context()),
  ).rejects.toMatchObject({ code: "verification_token_invalid" });
  await expect(resetPassword(deps, { token: reset, newPassword: NEW }, context())).rejects.toMatchObject({
    code: "reset_token_invalid",
  });
});

test("an undo gives the address back and ends every session; fifty at once do it once", async () => {
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  const token = await last("email-changed");
  const results = await Promise.allSettled(
    Array.from({ length: 50 }, () => undoEmailChange(deps, token, context())),
  );
  expect(results.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  expect(await addressOf(userId)).toBe(ANNA.email);
  expect(deps.tokenService.revokeUserSessions).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ userId, exceptSessionId: null, reason: "email_change_undone" }),
    expect.anything(),
  );
});

test("an undo removes recently linked identities, also from before the change, and leaves old ones", async () => {
  const link = (provider: string, linkedAt: Date) => database.ownerSql`
    insert into external_identities (issuer, subject, user_id, provider, linked_at)
    values (${`https://${provider}.example`}, 'sub', ${userId}, ${provider}, ${linkedAt})`;
  await link("owners", later(-31 * DAY_MS).now());
  await link("early", later(-29 * DAY_MS).now());
  await confirmEmailChange(deps, await wantAddress("thief@evil.example"));
  await link("thiefs", later(1_000).now());
  await undoEmailChange(later(2_000), await last("email-changed"), context());
  const left = await database.ownerSql`select provider from external_identities where user_id = ${userId}`;
  expect(left).toEqual([{ provider: "owners" }]);
});

test("an undo link is valid for seven days", async () => {
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  const token = await last("email-changed");
  await expect(undoEmailChange(later(7 * DAY_MS), token, context())).rejects.toMatchObject({
    code: "verification_token_invalid",
  });
  await undoEmailChange(later(7 * DAY_MS - 1), token, context());
});

test("an attacker who changes the address twice cannot prevent the undo to the first one, nor regain access", async () => {
  await confirmEmailChange(deps, await wantAddress("thief@evil.example"));
  const owners = await last("email-changed");
  await confirmEmailChange(
    later(1_000),
    await wantAddress("thief2@evil.example", ANNA.password, later(1_000)),
  );
  const thiefs = await last("email-changed");
  const pending = await wantAddress("thief3@evil.example", ANNA.password, later(2_000));
  await undoEmailChange(later(3_000), owners, context());
  expect(await addressOf(userId)).toBe(ANNA.email);
  for (const use of [
    () => undoEmailChange(later(4_000), thiefs, context()),
    () => confirmEmailChange(later(4_000), pending),
  ]) {
    await expect(use()).rejects.toMatchObject({ code: "verification_token_invalid" });
  }
  expect(await addressOf(userId)).toBe(ANNA.email);
});

test("no other user gets the old address until the undo link expires", async () => {
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  await expect(register(deps, ANNA, soon())).rejects.toMatchObject({ code: "email_already_registered" });
  await register(later(7 * DAY_MS), ANNA, soon());
});

test("guesses with a session lead to refusals of the right password too, and affect no other account", async () => {
  for (let guess = 0; guess < 5; guess += 1) {
    await expect(erase(`guess ${guess}`)).rejects.toMatchObject({ code: "invalid_credentials" });
  }
  deps.argon2.verify.mockClear();
  await expect(change(ANNA.password)).rejects.toMatchObject({ code: "invalid_credentials" });
  expect(deps.argon2.verify).toHaveBeenCalledTimes(1);
  const ben = await register(deps, { ...ANNA, email: "ben@example.com" }, soon());
  await erase(ANNA.password, ben.id);
});

test("the owner may want the old address again without the link that undoes the change", async () => {
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  await confirmEmailChange(deps, await wantAddress(ANNA.email));
  expect(await addressOf(userId)).toBe(ANNA.email);
});

test("an undone change removes the attacker's access: no password, and a link to set another", async () => {
  await confirmEmailChange(deps, await wantAddress("thief@evil.example"));
  await undoEmailChange(deps, await last("email-changed"), context());
  expect(await addressOf(userId)).toBe(ANNA.email);
  await expect(change(ANNA.password)).rejects.toMatchObject({ code: "invalid_credentials" });
  await resetPassword(deps, { token: await last("reset-password"), newPassword: NEW }, context());
  await change(NEW, "yet another password");
});

test("changing the address back ends the undo link to the address in between", async () => {
  await confirmEmailChange(deps, await wantAddress("thief@evil.example"));
  await confirmEmailChange(later(1_000), await wantAddress(ANNA.email, ANNA.password, later(1_000)));
  expect(await addressOf(userId)).toBe(ANNA.email);
  const undos = await tokensIn(database.ownerSql, deps.linkTokens, "email-changed");
  expect(undos).toHaveLength(1);
  await expect(undoEmailChange(later(2_000), undos[0] ?? "", context())).rejects.toMatchObject({
    code: "verification_token_invalid",
  });
});

test("wanting a taken address counts and kills like wanting a free one: no answer shows which", async () => {
  await register(deps, { ...ANNA, email: "owner@example.com" }, soon());
  const own = await wantAddress("mine@example.com");
  await wantAddress("owner@example.com");
  await expect(confirmEmailChange(deps, own)).rejects.toMatchObject({ code: "verification_token_invalid" });
});

test("with an account the throttle forgets the address", async () => {
  const forget = vi.spyOn(deps.throttle, "forget");
  await erase(ANNA.password);
  expect(forget.mock.calls.flat()).toEqual([ANNA.email, `reauthentication ${userId}`]);
});

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
const recorded = (type: string) =>
  database.ownerSql`select actor_id from security_events where user_id = ${userId} and type = ${type}`;
/** A link of a purpose that none of these mails has. */
async function linkFor(purpose: "undo_access_change"): Promise<string> {
  const stored = await transaction(database.sql, (tx) => makeLink(tx, deps, { userId, purpose }));
  return new URL(deps.linkTokens.completed({ link: stored }).link ?? "").searchParams.get("token") ?? "";
}
/** Changes the account after its password was checked, before the change that needs it. */
function afterPassword(change: () => Promise<unknown>): void {
  const { verify } = deps.passwords;
  deps.passwords.verify = async (...args) => {
    const verdict = await verify(...args);
    deps.passwords.verify = verify;
    await change();
    return verdict;
  };
}

test("a change of address and its undo are recorded as the owner's", async () => {
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  await undoEmailChange(deps, await last("email-changed"), context());
  for (const type of ["email_changed", "email_change_undone"]) {
    expect(await recorded(type), type).toEqual([{ actor_id: userId }]);
  }
});

test("the mails of a change of address and of its undoing are sent at once, also while token-service is away", async () => {
  const woken = async (work: Promise<unknown>) => {
    deps.wakeMailWorker.mockClear();
    const code = await codeOf(work);
    expect(deps.wakeMailWorker).toHaveBeenCalledOnce();
    return code;
  };
  expect(await woken(wantAddress("anna@new.example"))).toBe("done");
  expect(await woken(confirmEmailChange(deps, await last("confirm-email-change")))).toBe("done");
  deps.tokenService.revokeUserSessions.mockRejectedValueOnce(new DomainError("service_unavailable"));
  const undone = undoEmailChange(deps, await last("email-changed"), context());
  expect(await woken(undone)).toBe("service_unavailable");
});

test("a logged-in user can change the address even if strangers have taken all of their places", async () => {
  const afterAnswer = createAfterAnswer({ maxPending: 1, logger: deps.logger });
  const busy = Promise.withResolvers<void>();
  afterAnswer.run("flood", () => busy.promise);
  await wantAddress("anna@new.example", ANNA.password, { ...deps, afterAnswer });
  busy.resolve();
  await afterAnswer.drained();
  expect(await mails("confirm-email-change")).toHaveLength(1);
});

test.each([
  ["changes no address", confirmChange, () => wantAddress("anna@new.example")],
  ["proves none", verifyEmail, () => last("verify-email")],
] as const)("a password that is replaced while it is checked %s", async (_what, use, link) => {
  const proof = { token: await link(), sessionUserId: "", password: ANNA.password, clientIp: IP };
  afterPassword(() => database.ownerSql`update users set password_hash = null`);
  expect(await codeOf(use(deps, proof, context()))).toBe("invalid_credentials");
});

test("an undo cancels flows at providers, and records what else was removed", async () => {
  await confirmEmailChange(deps, await wantAddress("thief@evil.example"));
  await database.ownerSql`
    insert into external_identities (issuer, subject, user_id, provider, linked_at)
    values ('https://thief.example', 'sub', ${userId}, 'thief', ${deps.now()})`;
  const [createdAt, expiresAt] = [deps.now(), later(HOUR_MS).now()];
  const [stateHash, browserHash] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  const flow = {
    stateHash,
    browserHash,
    provider: "thief",
    returnTo: "/",
    codeChallenge: null,
    createdAt,
    expiresAt,
  };
  const linking = { linkUserId: userId, linkSessionEpoch: 0, linkSessionId: null };
  await insertFlow(database.sql, { ...flow, ...linking });
  await undoEmailChange(deps, await last("email-changed"), context());
  expect(await database.ownerSql`select from oauth_flows`).toHaveLength(0);
  const unlinked =
    await database.ownerSql`select reason from security_events where type = 'identity_unlinked'`;
  expect(unlinked).toEqual([{ reason: "thief" }]);
});

test("the mail to the old address says when it was left", async () => {
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  const link = expect.stringMatching(/^undo_email_change:/);
  expect(await mails("email-changed")).toMatchObject([
    { data: { link, occurredAt: "2031-01-02T03:04:05.678Z" } },
  ]);
});

describe("no mail, and nobody is woken to send one, for an address", () => {
  afterEach(async () => {
    await deps.afterAnswer.drained();
    expect(deps.logLines.join()).not.toContain("failed");
    expect(await mails("confirm-email-change")).toEqual([]);
    expect(await mails("address-in-use")).toEqual([]);
    expect(deps.wakeMailWorker).not.toHaveBeenCalled();
  });

  test("that the account has already", async () => {
    deps.wakeMailWorker.mockClear();
    await wantAddress("ANNA@example.com");
    expect(await database.ownerSql`select from links where purpose = 'confirm_email_change'`).toEqual([]);
  });

  test("of a disabled account", async () => {
    const { id } = await register(deps, { ...ANNA, email: "ben@example.com" }, soon());
    await database.ownerSql`update users set status = 'disabled' where id = ${id}`;
    deps.wakeMailWorker.mockClear();
    await wantAddress("ben@example.com");
  });

  test("that is kept for the account that had it", async () => {
    const { id } = await register(deps, { ...ANNA, email: "ben@example.com" }, soon());
    await database.ownerSql`
      insert into links (id, token_hash, purpose, user_id, new_email, created_at, expires_at)
      values (${uuidv7()}, decode(repeat('00', 32), 'hex'), 'undo_email_change', ${id}, 'old-ben@example.com',
        ${deps.now()}, ${later(DAY_MS).now()})`;
    deps.wakeMailWorker.mockClear();
    await wantAddress("old-ben@example.com");
  });

  test("that was asked for with a password that was replaced meanwhile", async () => {
    deps.wakeMailWorker.mockClear();
    afterPassword(() => database.ownerSql`update users set password_hash = null`);
    await wantAddress("anna@new.example");
  });

  test("that is the fourth within an hour", async () => {
    for (let index = 0; index < 3; index += 1) await wantAddress(`anna${index}@new.example`);
    await emptyTables(database.ownerSql, "mail_outbox");
    deps.wakeMailWorker.mockClear();
    await wantAddress("anna3@new.example");
  });
});

test("the owner of a taken address gets a mail with the time of the attempt", async () => {
  await register(deps, { ...ANNA, email: "ben@example.com" }, soon());
  await wantAddress("ben@example.com");
  expect(await mails("address-in-use")).toMatchObject([{ data: { occurredAt: "2031-01-02T03:04:05.678Z" } }]);
});

test("a change of address kills the link that takes a new login back: it went to the old one", async () => {
  const token = await linkFor("undo_access_change");
  const newer = await linkFor("undo_access_change");
  for (const each of [token, newer]) await openLink(deps, "undo_access_change", each);
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  for (const each of [token, newer]) {
    await expect(openLink(deps, "undo_access_change", each)).rejects.toMatchObject({
      code: "verification_token_invalid",
    });
  }
});

test("an undone change leaves the way back from an earlier one", async () => {
  await confirmEmailChange(deps, await wantAddress("second@example.com"));
  const first = await last("email-changed");
  await confirmEmailChange(later(1_000), await wantAddress("third@example.com", ANNA.password, later(1_000)));
  await undoEmailChange(later(2_000), await last("email-changed"), context());
  expect(await addressOf(userId)).toBe("second@example.com");
  await undoEmailChange(later(3_000), first, context());
  expect(await addressOf(userId)).toBe(ANNA.email);
});

test("returning to an address after its undo link has expired makes an undo link like any change", async () => {
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  const after = later(8 * DAY_MS);
  await confirmEmailChange(after, await wantAddress(ANNA.email, ANNA.password, after));
  expect((await mails("email-changed")).map(({ recipient }) => recipient)).toEqual([
    ANNA.email,
    "anna@new.example",
  ]);
});

test("an address that got another account all the same is not given back, and the link stays as it was", async () => {
  await confirmEmailChange(deps, await wantAddress("anna@new.example"));
  const { id } = await register(deps, { ...ANNA, email: "ben@example.com" }, soon());
  await database.ownerSql`update users set email = ${ANNA.email} where id = ${id}`;
  const token = await last("email-changed");
  await expect(undoEmailChange(deps, token, context())).rejects.toMatchObject({
    code: "verification_token_invalid",
  });
  await database.ownerSql`delete from users where id = ${id}`;
  await undoEmailChange(deps, token, context());
});

describe.each([
  ["a change of address", () => wantAddress("anna@new.example"), confirmEmailChange],
  [
    "its undoing",
    async () => {
      await confirmEmailChange(deps, await wantAddress("anna@new.example"));
      return last("email-changed");
    },
    (with_: typeof deps, token: string) => undoEmailChange(with_, token, context()),
  ],
] as const)("%s", (_what, ask, use) => {
  test.each([ANNA.email, "anna@new.example"])(
    "waits for whoever is deciding about %s, of the two addresses",
    async (address) => {
      const token = await ask();
      const held = await transaction(database.ownerSql, async (tx) => {
        await lockAddresses(tx, [address]);
        let outcome = "";
        const changed = codeOf(use(deps, token)).then((code) => {
          outcome = code;
        });
        // On a slow machine the wait may be over, in vain, before it is seen.
        const state = async () => outcome || ((await database.waitingForLocks()) === 1 ? "waits" : "");
        await expect.poll(state, { interval: 5 }).toMatch(/^(waits|service_unavailable)$/);
        return { changed };
      });
      await held.changed;
    },
  );
});
