import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { DomainError } from "#kit/values/errors.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import type { MailName } from "../mail/mail.ts";
import { checkLink } from "../mail/use-link.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { ANNA, sessionAt, soon, startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { tokensIn } from "../testing/test-mails.ts";
import { changeEmail } from "./change-email.ts";
import { confirmEmailChange } from "./confirm-email-change.ts";
import { forgotPassword, resendVerification } from "./mail-a-link.ts";
import { register } from "./register.ts";
import { undoEmailChange } from "./undo-change.ts";
import { disownAccount, verifyEmail } from "./verify-email.ts";

const FROM = { clientIp: "192.0.2.1", userAgent: "test" };
const STRANGER = "019a0000-0000-7000-8000-0000000000aa";

let database: TestDatabase;
let deps: TestDeps;
let userId: string;

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, userId } = await startWithAnna(database));
});
afterAll(() => database.drop());

const context = () => newCallContext({ budgetMs: 60_000 });
const last = async (template: MailName) =>
  (await tokensIn(database.ownerSql, deps.linkTokens, template)).at(-1) ?? "";
const nothing = { sessionUserId: "", password: "", clientIp: FROM.clientIp };
const verify = async (proof: Partial<typeof nothing> = {}) =>
  verifyEmail(deps, { token: await last("verify-email"), ...nothing, ...proof }, context());
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
const setUp = (password = ANNA.password) =>
  beginTotpEnrollment(deps, { ...sessionAt(deps, 2), userId, password, clientIp: FROM.clientIp }, soon());
const account = async () => {
  const [row] = await database.ownerSql`
    select email, email_verified as verified, credentials_proven_email as proof, password_hash as hash from users`;
  return row;
};
async function wantAddress(newEmail: string): Promise<string> {
  const request = { userId, newEmail, password: ANNA.password, clientIp: FROM.clientIp };
  await changeEmail(deps, { ...sessionAt(deps, 2), ...request }, soon());
  await deps.afterAnswer.drained();
  return last("confirm-email-change");
}
const confirm = (token: string, proof: Partial<typeof nothing> = { sessionUserId: userId }) =>
  confirmEmailChange(deps, { token, ...nothing, ...proof }, context());

describe("a check of a link", () => {
  const check = (purpose: string, token: string) => codeOf(checkLink(deps, { purpose, token }));

  test("names the address that it confirms, as often as it is asked, and ends with its use", async () => {
    const token = await last("verify-email");
    for (let view = 0; view < 3; view += 1)
      expect(await checkLink(deps, { purpose: "verify_email", token })).toEqual({
        email: ANNA.email,
        isVouched: false,
      });
    await verify();
    expect(await check("verify_email", token)).toBe("verification_token_invalid");
  });

  test("of a new address names that one", async () => {
    await verify({ password: ANNA.password });
    const token = await wantAddress("anna.new@example.com");
    const open = await checkLink(deps, { purpose: "confirm_email_change", token });
    expect(open).toEqual({ email: "anna.new@example.com", isVouched: false });
  });

  test("a reset link names no address; another purpose, another token or a disabled account has no link", async () => {
    await forgotPassword(deps, { email: ANNA.email });
    await deps.afterAnswer.drained();
    const token = await last("reset-password");
    expect(await checkLink(deps, { purpose: "reset_password", token })).toEqual({
      email: "",
      isVouched: false,
    });
    expect(await check("verify_email", token)).toBe("verification_token_invalid");
    expect(await check("reset_password", "x".repeat(43))).toBe("reset_token_invalid");
    expect(await check("reset_password", "x")).toBe("reset_token_invalid");
    expect(await check("all", token)).toBe("validation_failed");
    await database.ownerSql`update users set status = 'disabled'`;
    expect(await check("reset_password", token)).toBe("reset_token_invalid");
  });
});

describe("a verification", () => {
  test.each([
    ["the link alone", () => ({}), false],
    ["the password", () => ({ password: ANNA.password }), true],
    ["a session of the account", () => ({ sessionUserId: userId }), true],
    ["both", () => ({ sessionUserId: userId, password: ANNA.password }), true],
  ])("with %s verifies the address", async (_what, proof, isProven) => {
    expect(await verify(proof())).toMatchObject({ id: userId, emailVerified: true });
    expect(await account()).toMatchObject({ verified: true, proof: isProven ? ANNA.email : null });
    expect(await codeOf(setUp())).toBe(isProven ? "done" : "email_not_verified");
    expect(await database.ownerSql`select reason from security_events where type = 'email_verified'`).toEqual(
      [{ reason: isProven ? "with the credentials" : "by the link alone" }],
    );
  });

  test.each([
    ["a wrong password", { password: "wrong" }],
    ["the session of another account", { sessionUserId: STRANGER }],
    [
      "the session of another account beside the right password",
      {
        sessionUserId: STRANGER,
        password: ANNA.password,
      },
    ],
    ["a wrong password beside a session of the account", { sessionUserId: "own", password: "wrong" }],
  ])("with %s is refused and leaves the link usable", async (_what, proof) => {
    const sessionUserId = "sessionUserId" in proof && proof.sessionUserId === "own" ? userId : undefined;
    const refused = verify({ ...proof, ...(sessionUserId && { sessionUserId }) });
    expect(await codeOf(refused)).toBe("invalid_credentials");
    expect(await account()).toMatchObject({ verified: false, proof: null });
    await verify({ password: ANNA.password });
  });

  test("guesses of the password are counted, and end in refusals of the right one, too", async () => {
    for (let guess = 0; guess < 5; guess += 1) await codeOf(verify({ password: `guess ${guess}` }));
    expect(await codeOf(verify({ password: ANNA.password }))).toBe("invalid_credentials");
    expect(await codeOf(verify())).toBe("done");
  });

  test("a password without a link is not even looked at", async () => {
    deps.argon2.verify.mockClear();
    const request = { ...nothing, token: "x".repeat(43), password: ANNA.password };
    expect(await codeOf(verifyEmail(deps, request, context()))).toBe("verification_token_invalid");
    expect(deps.argon2.verify).not.toHaveBeenCalled();
  });
});

describe("without the proof of the credentials", () => {
  test("a second factor that was begun before is not turned on after the proof was lost", async () => {
    await verify({ password: ANNA.password });
    const { secret } = await setUp();
    // As a version does that knows nothing of the proof.
    await database.ownerSql`update users set email = 'other@example.com'`;
    const code = generateSync({ secret, epoch: Math.floor(deps.now().getTime() / 1_000) });
    const request = { userId, sessionId: STRANGER, code, ...FROM };
    expect(await codeOf(confirmTotpEnrollment(deps, { ...sessionAt(deps, 2), ...request }, context()))).toBe(
      "email_not_verified",
    );
    expect(await database.ownerSql`select from totp_credentials where confirmed_at is not null`).toEqual([]);
  });
});

describe("a new address", () => {
  test.each([
    ["nothing beside the link", {}, "reauthentication_required"],
    ["a wrong password", { password: "wrong" }, "invalid_credentials"],
    ["the session of another account", { sessionUserId: STRANGER }, "invalid_credentials"],
  ])("with %s is not taken, and the link stays usable", async (_what, proof, code) => {
    const token = await wantAddress("new@example.com");
    expect(await codeOf(confirm(token, proof))).toBe(code);
    expect(await account()).toMatchObject({ email: ANNA.email });
    await confirm(token, { password: ANNA.password });
    expect(await account()).toMatchObject({
      email: "new@example.com",
      verified: true,
      proof: "new@example.com",
    });
  });

  test("makes no undo link to an unverified address, which is free at once", async () => {
    await confirm(await wantAddress("new@example.com"));
    expect(await tokensIn(database.ownerSql, deps.linkTokens, "email-changed")).toEqual([]);
    await register(deps, ANNA, soon());
  });

  test("leaves a way back to an address that was verified by the link alone, and that way evicts everything", async () => {
    await verify();
    await confirm(await wantAddress("squatter@evil.example"));
    const { secret } = await setUp();
    const code = generateSync({ secret, epoch: Math.floor(deps.now().getTime() / 1_000) });
    await confirmTotpEnrollment(
      deps,
      { ...sessionAt(deps, 2), userId, sessionId: STRANGER, code, ...FROM },
      context(),
    );
    // Of before the change, as far as the clock shows.
    await database.ownerSql`update totp_credentials set created_at = now() - interval '8 days',
      confirmed_at = now() - interval '8 days'`;
    await undoEmailChange(deps, await last("email-changed"), context());
    expect(await account()).toEqual({ email: ANNA.email, verified: true, proof: null, hash: null });
    expect(await database.ownerSql`select from totp_credentials`).toEqual([]);
  });

  test("that is undone leaves the factor of an owner who had proven the old one", async () => {
    await verify({ password: ANNA.password });
    const { secret } = await setUp();
    const code = generateSync({ secret, epoch: Math.floor(deps.now().getTime() / 1_000) });
    await confirmTotpEnrollment(
      deps,
      { ...sessionAt(deps, 2), userId, sessionId: STRANGER, code, ...FROM },
      context(),
    );
    await database.ownerSql`update totp_credentials set created_at = now() - interval '8 days',
      confirmed_at = now() - interval '8 days'`;
    await confirm(await wantAddress("thief@evil.example"));
    await undoEmailChange(deps, await last("email-changed"), context());
    expect(await account()).toEqual({ email: ANNA.email, verified: true, proof: ANNA.email, hash: null });
    expect(await database.ownerSql`select from totp_credentials`).toHaveLength(1);
  });
});

describe('"I did not make this account"', () => {
  const disown = async (token: string) => disownAccount(deps, { token, ...FROM }, context());

  test("takes the account from its maker, once, with one mail and one event", async () => {
    const token = await last("verify-email");
    deps.tokenService.revokeUserSessions.mockResolvedValueOnce(["s1"]);
    expect(await disown(token)).toEqual({ userId, sessionIds: ["s1"] });
    expect(await account()).toEqual({ email: ANNA.email, verified: false, proof: null, hash: null });
    const mails =
      await database.ownerSql`select template, recipient from mail_outbox where template <> 'verify-email'`;
    expect(mails).toEqual([{ template: "account-claimed", recipient: ANNA.email }]);
    const events =
      await database.ownerSql`select type, reason, ip from security_events where type like 'account%'`;
    expect(events).toEqual([{ type: "account_claimed", reason: "account_disowned", ip: FROM.clientIp }]);
    expect(await codeOf(disown(token))).toBe("verification_token_invalid");
  });

  test("is no way to take a proven account's credentials away", async () => {
    await resendVerification(deps, ANNA);
    await deps.afterAnswer.drained();
    const token = await last("verify-email");
    await database.ownerSql`update users set email_verified = true, credentials_proven_email = email,
      credentials_proven_at = now()`;
    expect(await codeOf(disown(token))).toBe("verification_token_invalid");
    expect((await account())?.hash).not.toBeNull();
  });
});
