import { randomBytes } from "node:crypto";
import { generateSync } from "otplib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { completeMfaLogin } from "../login/complete-mfa-login.ts";
import { logIn as logInWith } from "../login/log-in.ts";
import type { MailName } from "../mail/mail.ts";
import { beginTotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { confirmTotpEnrollment } from "../mfa/confirm-totp-enrollment.ts";
import { beginOAuthLogin } from "../oauth/begin-oauth-login.ts";
import { completeOAuthLogin, type OAuthResult } from "../oauth/complete-oauth-login.ts";
import { exchangeOAuthCode } from "../oauth/exchange-oauth-code.ts";
import type { ExternalPerson } from "../oauth/external-person.ts";
import { challengeOf } from "../oauth/oauth-flow-secrets.ts";
import type { RelyingParty } from "../oauth/relying-party.ts";
import type { SessionTokens } from "../sessions/token-service-client.ts";
import { proveCredentials, sessionAt, soon, testDeps } from "../testing/test-deps.ts";
import { readOutbox } from "../testing/test-mails.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { throttleLimits } from "../throttle/throttle.ts";
import { changeEmail } from "./change-email.ts";
import { confirmEmailChange } from "./confirm-email-change.ts";
import { forgotPassword, resendVerification } from "./mail-a-link.ts";
import { register } from "./register.ts";
import { resetPassword } from "./reset-password.ts";
import { undoEmailChange } from "./undo-change.ts";
import { disownAccount, verifyEmail } from "./verify-email.ts";

/** Enough for tests that are not about hashing: there are some two thousand hashes here. */
const CHEAP = { memoryKib: 64, iterations: 1, parallelism: 1 };
const FROM = { clientIp: "192.0.2.1", userAgent: "test" };
/** Where a login comes from: on a device that is not known. */
const NEW_DEVICE = { ...FROM, deviceToken: "" };
const THEIRS = "the attacker's password";
const OWN = "the owner's password 42";
const VERIFIER = randomBytes(32).toString("base64url");

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
/** By id: whose, and whether it lives. */
const sessions = new Map<string, { userId: string; isLive: boolean }>();

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
  deps = await testDeps(database.sql, CHEAP);
  deps.relyingParties = new Map(["demo", "other"].map((name) => [name, partyOf(name)]));
  deps.tokenService.issueSession.mockImplementation(async ({ userId }): Promise<SessionTokens> => {
    const sessionId = deps.newId();
    sessions.set(sessionId, { userId, isLive: true });
    return {
      accessToken: "a",
      refreshToken: "r",
      expiresInS: 900,
      refreshExpiresInS: 604_800,
      sessionId,
      userId,
    };
  });
  deps.tokenService.revokeUserSessions.mockImplementation(async ({ userId, exceptSessionId }) => {
    const ended = [...sessions].filter(
      ([id, s]) => s.userId === userId && s.isLive && id !== exceptSessionId,
    );
    for (const [, session] of ended) session.isLive = false;
    return ended.map(([id]) => id);
  });
});
afterAll(() => database.drop());

const context = () => newCallContext({ budgetMs: 60_000 });
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );

/** A provider that says what the test has put into the code. */
function partyOf(name: string): RelyingParty {
  const issuer = `https://${name}.example`;
  return {
    name,
    displayName: name,
    issuer,
    authorizationUrl: async ({ state }) => new URL(`${issuer}/authorize?state=${state}`),
    identify: async ({ code }) => JSON.parse(code) as ExternalPerson,
    refresh: async () => undefined,
  };
}

interface FlowOptions {
  name?: string;
  codeChallenge?: string;
  linkTo?: { userId: string; password: string };
}
/** Of any session that is older than what happens now. */
const earlier = () => new Date(deps.now().getTime() - 60_000);

/** A browser that goes to a provider. @returns what ends the flow there. */
async function depart({ name = "demo", codeChallenge = "", linkTo }: FlowOptions = {}) {
  const owner = linkTo && {
    ...linkTo,
    ...FROM,
    sessionId: deps.newId(),
    acr: 2 as const,
    authTime: earlier(),
  };
  const beginning = {
    provider: name,
    returnTo: "",
    codeChallenge,
    isAfresh: false,
    linkTo: owner,
    clientIp: FROM.clientIp,
  };
  const browser = { browserToken: "", isBrowserTokenSecure: true };
  const { authorizationUrl, browserToken } = await beginOAuthLogin(
    deps,
    { ...beginning, ...browser },
    context(),
  );
  const state = new URL(authorizationUrl).searchParams.get("state") ?? "";
  return async (subject: string, email: string, isEmailVerified = true): Promise<OAuthResult> => {
    const code = JSON.stringify({ subject, email, isEmailVerified, firstName: "A", lastName: "B" });
    const arrival = {
      provider: name,
      browserToken,
      isBrowserTokenSecure: true,
      code,
      state,
      iss: "",
      error: "",
    };
    return (await completeOAuthLogin(deps, { ...arrival, ...NEW_DEVICE, language: "" }, context())).result;
  };
}
const linkedAs = async (options: FlowOptions, subject: string, email: string) =>
  (await depart(options))(subject, email);

/** The token of the newest mail of a kind to an address. */
async function mailed(recipient: string, template: MailName): Promise<string> {
  await deps.afterAnswer.drained();
  const mails = await readOutbox(database.ownerSql);
  const mail = mails.findLast(
    (candidate) => candidate.recipient === recipient && candidate.template === template,
  );
  if (mail === undefined) throw new Error(`no ${template} to ${recipient}`);
  return new URL(deps.linkTokens.completed(mail.data).link ?? "").searchParams.get("token") ?? "";
}
async function verificationsOf(email: string): Promise<number> {
  await deps.afterAnswer.drained();
  const mails = await readOutbox(database.ownerSql);
  return mails.filter(({ recipient, template }) => recipient === email && template === "verify-email").length;
}
const totp = (secret: string, steps = 0) =>
  generateSync({ secret, epoch: Math.floor(deps.now().getTime() / 1_000) + steps * 30 });

async function enableMfa(
  userId: string,
  password: string,
): Promise<{ secret: string; recoveryCodes: string[] }> {
  const { secret } = await beginTotpEnrollment(
    deps,
    { ...sessionAt(deps, 2), userId, password, clientIp: FROM.clientIp },
    soon(),
  );
  const request = { userId, sessionId: deps.newId(), code: totp(secret, -1), ...FROM };
  return {
    secret,
    recoveryCodes: (await confirmTotpEnrollment(deps, { ...sessionAt(deps, 2), ...request }, context()))
      .recoveryCodes,
  };
}
const logIn = (email: string, password: string) =>
  logInWith(deps, { email, password, ...NEW_DEVICE }, context());
async function resetTo(email: string, newPassword: string) {
  await forgotPassword(deps, { email });
  await resetPassword(deps, { token: await mailed(email, "reset-password"), newPassword }, context());
}

let count = 0;
/** An attacker's account with the address of its victim, and everything that the attacker gets hold of. */
async function squatted() {
  count += 1;
  await emptyTables(database.ownerSql, "mail_outbox", "security_events");
  sessions.clear();
  const limits = throttleLimits({ network: 10_000, everything: 100_000 });
  deps.throttle = new MemoryThrottle({ limits, now: () => deps.now().getTime() });
  const victim = `victim-${count}@example.com`;
  const evil = `attacker-${count}@evil.example`;
  const person = { email: victim, password: THEIRS, firstName: "E", lastName: "V" };
  const { id: userId } = await register(deps, person, soon());
  /** What may still work later, by name: each says whether it got in. */
  const leftovers: [string, () => Promise<boolean>][] = [];
  const subject = `attacker-${count}`;
  return { victim, evil, userId, leftovers, subject };
}
type Squatted = Awaited<ReturnType<typeof squatted>>;
const isIn = (work: Promise<unknown>) =>
  work.then(
    () => true,
    () => false,
  );

const refused = () => ({ kind: "refused" }) as const;

/** What the attacker does while nobody has proven the account. Refusals are expected, and no reason to stop. */
const ATTACKS = {
  async session({ victim, leftovers }: Squatted) {
    const result = await logIn(victim, THEIRS);
    if (result.kind === "mfaChallenge") {
      const { tempToken } = result;
      leftovers.push([
        "a login that waits for its code",
        () => isIn(passWith(tempToken, secrets.get(victim))),
      ]);
    }
    if (result.kind !== "completed") return;
    leftovers.push(["a session", async () => sessions.get(result.tokens.sessionId)?.isLive === true]);
  },
  async link({ userId, evil, subject, leftovers }: Squatted) {
    const linkTo = { userId, password: THEIRS };
    await linkedAs({ linkTo }, subject, evil).catch(() => undefined);
    const pending = await depart({ name: "other", linkTo }).catch(() => undefined);
    if (pending === undefined) return;
    leftovers.push([
      "a linking under way",
      async () => (await pending(subject, evil).catch(refused)).kind === "linked",
    ]);
    const codeFlow = await depart({ codeChallenge: challengeOf(VERIFIER) });
    const coded = await codeFlow(subject, evil);
    if (coded.kind !== "oneTimeCode" || coded.userId !== userId) return;
    const request = { code: coded.code, codeVerifier: VERIFIER, ...NEW_DEVICE };
    leftovers.push(["a one-time code", () => isIn(exchangeOAuthCode(deps, request, context()))]);
  },
  async mfa({ userId, victim, leftovers }: Squatted) {
    const enabled = await enableMfa(userId, THEIRS).catch(() => undefined);
    if (enabled === undefined) return;
    secrets.set(victim, enabled);
    leftovers.push(["a second factor", async () => hasFactor(userId)]);
  },
  async change({ userId, evil, leftovers }: Squatted) {
    await changeEmail(
      deps,
      { ...sessionAt(deps, 2), userId, newEmail: evil, password: THEIRS, clientIp: FROM.clientIp },
      soon(),
    );
    const token = await mailed(evil, "confirm-email-change");
    const proof = { token, sessionUserId: userId, password: "", clientIp: "" };
    leftovers.push(["a change of address", () => isIn(confirmEmailChange(deps, proof, context()))]);
  },
  /** The victim presses the button of the mail that nobody has asked for, without a password. */
  async click({ victim, leftovers }: Squatted) {
    const token = await mailed(victim, "verify-email");
    await verifyEmail(deps, { token, sessionUserId: "", password: "", clientIp: "" }, context());
    leftovers.push(["a verification link", () => isIn(disownAccount(deps, { token, ...FROM }, context()))]);
  },
};
type Attack = keyof typeof ATTACKS;
const secrets = new Map<string, { secret: string; recoveryCodes: string[] }>();

function passWith(tempToken: string, factor: { recoveryCodes: string[] } | undefined) {
  const [code = ""] = factor?.recoveryCodes ?? [];
  return completeMfaLogin(deps, { tempToken, code, ...NEW_DEVICE }, context());
}
async function hasFactor(userId: string): Promise<boolean> {
  const rows = await database.ownerSql`select from totp_credentials where user_id = ${userId}`;
  const codes = await database.ownerSql`select from recovery_codes where user_id = ${userId}`;
  return rows.length + codes.length > 0;
}

/** The ways in which the owner of the mailbox comes to the account, each ending in a session. */
const PROOFS = {
  async reset({ victim }: Squatted) {
    await resetTo(victim, OWN);
    return logIn(victim, OWN);
  },
  async provider({ victim }: Squatted) {
    const result = await linkedAs({}, `owner of ${victim}`, victim);
    if (result.kind !== "completed") throw new Error(JSON.stringify(result));
    return result;
  },
  async "provider, by code"({ victim }: Squatted) {
    const flow = await depart({ codeChallenge: challengeOf(VERIFIER) });
    const result = await flow(`owner of ${victim}`, victim);
    if (result.kind !== "oneTimeCode") throw new Error(JSON.stringify(result));
    return exchangeOAuthCode(deps, { code: result.code, codeVerifier: VERIFIER, ...NEW_DEVICE }, context());
  },
  async "disowning, then a reset"({ victim, userId }: Squatted) {
    await resendVerification(deps, { email: victim });
    await disownAccount(deps, { token: await mailed(victim, "verify-email"), ...FROM }, context());
    expect([...sessions.values()].filter((s) => s.userId === userId && s.isLive)).toEqual([]);
    await resetTo(victim, OWN);
    return logIn(victim, OWN);
  },
};
type Proof = keyof typeof PROOFS;

/** Everything that the attacker tries afterwards. @returns what worked. */
async function waysInOf({ victim, evil, userId, subject, leftovers }: Squatted): Promise<string[]> {
  const worked: string[] = [];
  for (const [name, attempt] of leftovers) if (await attempt()) worked.push(name);
  if (await isIn(logIn(victim, THEIRS))) worked.push("the password");
  const arrived = await linkedAs({}, subject, evil);
  if (arrived.kind === "completed" && arrived.user.id === userId) worked.push("the identity");
  if (arrived.kind === "mfaChallenge" && arrived.userId === userId) worked.push("the identity");
  const linking = await codeOf(depart({ name: "other", linkTo: { userId, password: THEIRS } }));
  if (linking === "done") worked.push("linking");
  return worked;
}

/** An attacker may have proven the credentials with an address that the account has no more. */
async function asIfProven(userId: string, work: () => Promise<void>): Promise<void> {
  const [before] = await database.ownerSql`select email_verified as verified from users where id = ${userId}`;
  await proveCredentials(database.ownerSql, userId);
  await work();
  await database.ownerSql`update users set credentials_proven_email = null, credentials_proven_at = null,
    email_verified = ${before?.verified} where id = ${userId}`;
}

function permutations<T>(items: readonly T[]): T[][] {
  if (items.length <= 1) return [[...items]];
  return items.flatMap((item, index) =>
    permutations(items.toSpliced(index, 1)).map((rest) => [item, ...rest]),
  );
}

const orders: Attack[][] = [
  [],
  ["change", "click", "session"],
  ...permutations<Attack>(["session", "link", "mfa", "click"]).map((order) => order.concat("change")),
];
const cases = orders.flatMap((order) =>
  (Object.keys(PROOFS) as Proof[]).map((proof) => ({ proof, order, title: order.join(", ") || "nothing" })),
);

describe.each([
  ["never proven", false],
  ["proven while the attacker acted, and not since", true],
])("an account that an attacker made, with credentials that were %s", (_what, wereProven) => {
  test.each(cases)(
    "$title; then the owner's $proof: nothing of the attacker is left",
    async ({ order, proof }) => {
      const account = await squatted();
      for (const attack of order) {
        const act = () => ATTACKS[attack](account);
        await (wereProven && attack !== "click" ? asIfProven(account.userId, act) : act());
      }
      if (wereProven && order.includes("mfa")) expect(await hasFactor(account.userId)).toBe(true);
      if (!wereProven) expect(await hasFactor(account.userId)).toBe(false);

      const entered = await PROOFS[proof](account);
      if (!("tokens" in entered)) throw new Error(`the owner stands before ${JSON.stringify(entered)}`);
      expect(entered.user).toMatchObject({ id: account.userId, emailVerified: true, mfaEnabled: false });
      expect(await waysInOf(account)).toEqual([]);
      expect(sessions.get(entered.tokens.sessionId)?.isLive).toBe(true);
    },
  );
});

/** A reset takes back logins at providers that are younger than 30 days: a thief of the password may have linked them. */
const age = (userId: string) => database.ownerSql`
  update external_identities set linked_at = now() - interval '31 days' where user_id = ${userId}`;

describe("what the owner makes after the proof stays", () => {
  test.each(Object.keys(PROOFS) as Proof[])(
    "after a %s, also when only the mailbox is shown again",
    async (proof) => {
      const account = await squatted();
      const { victim, userId } = account;
      await PROOFS[proof](account);
      await age(userId);
      await resetTo(victim, OWN);
      const { recoveryCodes } = await enableMfa(userId, OWN);
      const linkTo = { userId, password: OWN };
      expect(await linkedAs({ name: "other", linkTo }, `other of ${victim}`, "x@example.com")).toMatchObject({
        kind: "linked",
      });
      await age(userId);
      // Whoever has the mailbox, and nothing else, in each way that there is.
      await resetTo(victim, "of the mailbox's thief");
      expect(await logIn(victim, "of the mailbox's thief")).toHaveProperty("kind", "mfaChallenge");
      expect(await linkedAs({}, `thief of ${victim}`, victim)).toMatchObject(
        proof.startsWith("provider") ? { kind: "refused", code: "link_required" } : { kind: "mfaChallenge" },
      );
      const verifications = await verificationsOf(victim);
      await resendVerification(deps, { email: victim });
      expect(await verificationsOf(victim)).toBe(verifications);
      expect(await hasFactor(userId)).toBe(true);
      const pending = await linkedAs({ name: "other" }, `other of ${victim}`, "x@example.com");
      if (pending.kind !== "mfaChallenge") throw new Error(JSON.stringify(pending));
      expect(await isIn(passWith(pending.tempToken, { recoveryCodes }))).toBe(true);
    },
  );
});

describe("whose verification it is", () => {
  test("an honest registration with its password keeps everything at a reset and at a provider's login", async () => {
    const { victim: email, userId } = await squatted();
    const token = await mailed(email, "verify-email");
    await verifyEmail(deps, { token, sessionUserId: "", password: THEIRS, clientIp: "" }, context());
    await enableMfa(userId, THEIRS);
    expect(await linkedAs({}, `owner of ${email}`, email)).toMatchObject({ kind: "mfaChallenge" });
    await resetTo(email, OWN);
    expect(await hasFactor(userId)).toBe(true);
    expect(await linkedAs({}, `owner of ${email}`, email)).toMatchObject({ kind: "mfaChallenge" });
  });

  test("a click alone keeps the login by password, and the registrant can still prove it", async () => {
    const account = await squatted();
    await ATTACKS.click(account);
    expect(await logIn(account.victim, THEIRS)).toHaveProperty("tokens");
    await resendVerification(deps, { email: account.victim });
    const token = await mailed(account.victim, "verify-email");
    await verifyEmail(deps, { token, sessionUserId: account.userId, password: "", clientIp: "" }, context());
    await enableMfa(account.userId, THEIRS);
  });

  test.each([
    ["unchecked", "USER", false],
    ["checked, but the account is an administrator's", "ADMIN", true],
    ["checked, but the account is an auditor's", "AUDITOR", true],
  ])("an address that the provider has %s opens and takes nothing", async (_what, role, isVerified) => {
    const { victim, userId } = await squatted();
    await database.ownerSql`update users set role = ${role}, email_verified = true where id = ${userId}`;
    for (const isProven of [false, true]) {
      if (isProven) await proveCredentials(database.ownerSql, userId);
      const result = await (await depart())(`owner of ${victim}`, victim, isVerified);
      expect(result).toEqual({ kind: "refused", code: "link_required" });
      expect(await logIn(victim, THEIRS)).toHaveProperty("tokens");
    }
  });
});

describe("an account of the attacker's own that is to become the victim's", () => {
  test("is not given away by the click of the victim, whose own account is theirs alone", async () => {
    const { victim: attackers, evil: address, userId } = await squatted();
    const token = await mailed(attackers, "verify-email");
    await verifyEmail(deps, { token, sessionUserId: userId, password: "", clientIp: "" }, context());
    await changeEmail(
      deps,
      { ...sessionAt(deps, 2), userId, newEmail: address, password: THEIRS, clientIp: "" },
      soon(),
    );
    const click = { token: await mailed(address, "confirm-email-change"), clientIp: "" };
    const clicked = confirmEmailChange(deps, { ...click, sessionUserId: "", password: "" }, context());
    expect(await codeOf(clicked)).toBe("reauthentication_required");
    const own = await linkedAs({}, `owner of ${address}`, address);
    if (own.kind !== "completed") throw new Error(JSON.stringify(own));
    expect(own.user.id).not.toBe(userId);
    const taken = confirmEmailChange(deps, { ...click, sessionUserId: userId, password: THEIRS }, context());
    expect(await codeOf(taken)).toBe("verification_token_invalid");
  });

  test("an address that was verified by a click alone and then left: its owner's undo leaves nothing of the attacker", async () => {
    const account = await squatted();
    const { victim, evil, userId } = account;
    await ATTACKS.click(account);
    await ATTACKS.session(account);
    await changeEmail(
      deps,
      { ...sessionAt(deps, 2), userId, newEmail: evil, password: THEIRS, clientIp: "" },
      soon(),
    );
    const proof = { token: await mailed(evil, "confirm-email-change"), sessionUserId: userId };
    await confirmEmailChange(deps, { ...proof, password: "", clientIp: "" }, context());
    await ATTACKS.link(account);
    await ATTACKS.mfa(account);
    await undoEmailChange(deps, await mailed(victim, "email-changed"), context());
    expect(await waysInOf(account)).toEqual([]);
    await resetPassword(deps, { token: await mailed(victim, "reset-password"), newPassword: OWN }, context());
    expect(await logIn(victim, OWN)).toMatchObject({ user: { id: userId }, tokens: {} });
    expect(await waysInOf(account)).toEqual([]);
  });
});
