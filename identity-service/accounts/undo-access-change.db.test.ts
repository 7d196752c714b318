import { generateSync } from "otplib";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { regenerateRecoveryCodes } from "../mfa/give-recovery-codes.ts";
import { enqueueMfaNotice } from "../mfa/mfa-notice.ts";
import { recordIdentityChange } from "../oauth/record-identity-change.ts";
import {
  ANNA,
  proveCredentials,
  sessionAt,
  soon,
  startWithAnna,
  type TestDeps,
} from "../testing/test-deps.ts";
import { readOutbox, tokensIn } from "../testing/test-mails.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { changeEmail } from "./change-email.ts";
import { confirmEmailChange } from "./confirm-email-change.ts";
import { forgotPassword } from "./mail-a-link.ts";
import { resetPassword } from "./reset-password.ts";
import { undoAccessChange, undoEmailChange } from "./undo-change.ts";

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

const NEW = "an entirely new password";
const DAY_MS = 24 * 3_600_000;
const FROM = { clientIp: "192.0.2.1", userAgent: "" };
const context = () => newCallContext({ budgetMs: 60_000 });
const later = (ms: number) => ({ ...deps, now: () => new Date(deps.now().getTime() + ms) });
const last = async (template: "mfa-enabled" | "identity-linked" | "email-changed" | "reset-password") =>
  (await tokensIn(database.ownerSql, deps.linkTokens, template)).at(-1) ?? "";

/** What can log in, besides nothing. */
async function waysIn() {
  const [user] = await database.ownerSql<{ hasPassword: boolean; hasFactor: boolean; email: string }[]>`
    select password_hash is not null as "hasPassword", email,
      exists (select from totp_credentials where confirmed_at is not null) as "hasFactor" from users`;
  const linked = await database.ownerSql<{ provider: string }[]>`
    select provider from external_identities order by provider`;
  return { ...user, providers: linked.map(({ provider }) => provider) };
}

async function link(provider: string, agoMs = 0): Promise<void> {
  const at = later(-agoMs);
  await database.ownerSql`
    insert into external_identities (issuer, subject, user_id, provider, linked_at)
    values (${`https://${provider}.example`}, 'sub', ${userId}, ${provider}, ${at.now()})`;
  const change = {
    userId,
    email: ANNA.email,
    provider: { name: provider, displayName: provider },
    change: "linked",
  } as const;
  await transaction(database.sql, (tx) =>
    recordIdentityChange(tx, at, { ...change, origin: FROM }, context()),
  );
}

async function turnFactorOn(agoMs = 0): Promise<void> {
  const at = later(-agoMs);
  await database.ownerSql`
    insert into totp_credentials (user_id, secret_encrypted, key_id, created_at, confirmed_at)
    values (${userId}, ${Buffer.alloc(48)}, '0123456789abcdef', ${at.now()}, ${at.now()})`;
  await transaction(database.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, userId);
    if (user === undefined) throw new Error("no such user");
    await enqueueMfaNotice(tx, at, user, { template: "mfa-enabled", from: FROM });
  });
}

async function thiefTakesTheAddress(): Promise<void> {
  const wanted = { userId, newEmail: "thief@evil.example", password: ANNA.password, clientIp: "" };
  await changeEmail(deps, { ...sessionAt(deps, 2), ...wanted }, soon());
  await deps.afterAnswer.drained();
  const token = (await tokensIn(database.ownerSql, deps.linkTokens, "confirm-email-change")).at(-1) ?? "";
  const proof = { token, sessionUserId: userId, password: "", clientIp: "" };
  await confirmEmailChange(deps, proof, context());
}

async function resetByMail(keepRecentLogins = false): Promise<void> {
  await forgotPassword(deps, { email: ANNA.email, clientIp: "" });
  await deps.afterAnswer.drained();
  const token = await last("reset-password");
  await resetPassword(deps, { token, newPassword: NEW, keepRecentLogins }, context());
}

const NOBODY = { hasPassword: false, hasFactor: false, providers: [], email: ANNA.email };
const ACTS = { link: () => link("thiefs"), factor: () => turnFactorOn(), address: thiefTakesTheAddress };

test.each([
  ["link", "factor", "address"],
  ["link", "address", "factor"],
  ["factor", "link", "address"],
  ["factor", "address", "link"],
  ["address", "link", "factor"],
  ["address", "factor", "link"],
] as const)(
  "a thief who does %s, %s and %s has nothing left when the owner takes the address back",
  async (...order) => {
    for (const act of order) await ACTS[act]();
    await undoEmailChange(later(1_000), await last("email-changed"), context());
    expect(await waysIn()).toEqual(NOBODY);
    await expect(undoAccessChange(later(2_000), await last("mfa-enabled"), context())).rejects.toMatchObject({
      code: "verification_token_invalid",
    });
  },
);

test.each(["mfa-enabled", "identity-linked"] as const)(
  "the link of the mail %s evicts whoever was there, and mails the way to a new password",
  async (template) => {
    await link("thiefs");
    await turnFactorOn();
    deps.tokenService.revokeUserSessions.mockResolvedValueOnce(["s1"]);
    const token = await last(template);
    expect(await undoAccessChange(deps, token, context())).toEqual({ userId, sessionIds: ["s1"] });
    expect(await waysIn()).toEqual(NOBODY);
    const token2 = await last("reset-password");
    await resetPassword(deps, { token: token2, newPassword: NEW }, context());
    expect(await waysIn()).toEqual({ ...NOBODY, hasPassword: true });
    await expect(undoAccessChange(deps, token, context())).rejects.toMatchObject({
      code: "verification_token_invalid",
    });
  },
);

/** An authenticator app of `agoMs` ago, and recovery codes that were renewed a minute ago. */
async function renewCodes(agoMs: number): Promise<void> {
  const [then, lately] = [later(-agoMs), later(-60_000)];
  const setUp = { ...sessionAt(then, 2), ...FROM, userId, password: ANNA.password };
  const { secret } = await beginTotpEnrollment(then, setUp, soon());
  const codeAt = ({ now }: TestDeps) => generateSync({ secret, epoch: Math.floor(now().getTime() / 1_000) });
  const confirmation = { ...setUp, sessionId: deps.newId(), code: codeAt(then) };
  await confirmTotpEnrollment(then, confirmation, context());
  const renewal = { ...sessionAt(lately, 2), ...FROM, userId, code: codeAt(lately) };
  await regenerateRecoveryCodes(lately, renewal, context());
}
const codesLeft = async () =>
  (await database.ownerSql<{ count: number }[]>`select count(*)::int as count from recovery_codes`)[0]?.count;

test.each([
  ["a change of address", thiefTakesTheAddress, () => last("email-changed"), undoEmailChange],
  ["a new identity", () => link("thiefs"), () => last("identity-linked"), undoAccessChange],
] as const)(
  "recovery codes that a thief has renewed before %s go with it, and the old factor stays",
  async (_what, act, mailed, undo) => {
    await renewCodes(8 * DAY_MS);
    await act();
    await undo(deps, await mailed(), context());
    expect(await waysIn()).toEqual({ ...NOBODY, hasFactor: true });
    expect(await codesLeft()).toBe(0);
  },
);

test("the mailbox alone takes no recovery codes that are older than seven days", async () => {
  await renewCodes(8 * DAY_MS);
  await database.ownerSql`update recovery_codes set created_at = ${later(-8 * DAY_MS).now()}`;
  await link("thiefs");
  await undoAccessChange(deps, await last("identity-linked"), context());
  expect(await codesLeft()).toBe(10);
});

test("undoing a new identity leaves old credentials: the mailbox alone removes no old factor", async () => {
  await link("old", 31 * DAY_MS);
  await turnFactorOn(8 * DAY_MS);
  await link("thiefs");
  await undoAccessChange(deps, await last("identity-linked"), context());
  expect(await waysIn()).toEqual({ ...NOBODY, hasFactor: true, providers: ["old"] });
});

test("taking a new login back is possible for seven days", async () => {
  await link("thiefs");
  const token = await last("identity-linked");
  await expect(undoAccessChange(later(7 * DAY_MS), token, context())).rejects.toMatchObject({
    code: "verification_token_invalid",
  });
  await undoAccessChange(later(7 * DAY_MS - 1), token, context());
});

test("after a change of address the links in the old mailbox take no login back: theirs is the link that gives the address back", async () => {
  await link("thiefs");
  await thiefTakesTheAddress();
  await expect(undoAccessChange(deps, await last("identity-linked"), context())).rejects.toMatchObject({
    code: "verification_token_invalid",
  });
});

test("a reset removes recently linked identities, leaves the factor, and the mail lists both", async () => {
  await link("old", 31 * DAY_MS);
  await link("thiefs", 2 * DAY_MS);
  await turnFactorOn();
  await resetByMail();
  expect(await waysIn()).toEqual({ ...NOBODY, hasPassword: true, hasFactor: true, providers: ["old"] });
  const mail = (await readOutbox(database.ownerSql)).find(({ template }) => template === "password-reset");
  expect(mail?.data).toMatchObject({
    removed: [{ phrase: "provider-login", values: { provider: "thiefs" } }],
    left: [
      { phrase: "provider-login-since", values: { provider: "old" } },
      { phrase: "second-factor-since" },
    ],
  });
});

test("a reset keeps recently linked identities if its owner asks for it", async () => {
  await link("own");
  await resetByMail(true);
  expect(await waysIn()).toMatchObject({ providers: ["own"] });
});
