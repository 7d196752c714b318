import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createAfterAnswer } from "../mail/after-answer.ts";
import { consumeLink } from "../mail/link-store.ts";
import type { MailName } from "../mail/mail.ts";
import { deleteOldLinks } from "../mail/make-link.ts";
import { ANNA, proveCredentials, soon, startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { readOutbox, tokensIn } from "../testing/test-mails.ts";
import { rememberNetwork } from "../throttle/known-caller.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { throttleLimits } from "../throttle/throttle.ts";
import { forgotPassword, resendVerification } from "./mail-a-link.ts";
import { register } from "./register.ts";
import { resetPassword } from "./reset-password.ts";
import { verifyEmail as verify } from "./verify-email.ts";

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

const NEW = "an entirely new password";
const verifyEmail = (withDeps: Parameters<typeof verify>[0], token: string) =>
  verify(withDeps, { token, sessionUserId: "", password: "", clientIp: "" }, context());
const HOUR_MS = 3_600_000;
const context = () => newCallContext({ budgetMs: 60_000 });
const tokens = (template: MailName) => tokensIn(database.ownerSql, deps.linkTokens, template);
const later = (ms: number) => ({ ...deps, now: () => new Date(deps.now().getTime() + ms) });
const reset = (token: string, newPassword = NEW, with_: typeof deps = deps) =>
  resetPassword(with_, { token, newPassword }, context());

async function last(template: MailName): Promise<string> {
  return (await tokens(template)).at(-1) ?? "";
}

async function askForReset(with_ = deps, email = ANNA.email): Promise<string> {
  await forgotPassword(with_, { email });
  await deps.afterAnswer.drained();
  return last("reset-password");
}

async function account() {
  const [row] = await database.ownerSql`select * from users where id = ${userId}`;
  return row ?? {};
}

async function outcomesOf(uses: Promise<unknown>[]) {
  const results = await Promise.allSettled(uses);
  const codes = results.map((result) =>
    result.status === "fulfilled" ? "ok" : (result.reason as DomainError).code,
  );
  return Object.fromEntries(
    Object.entries(Object.groupBy(codes, (code) => code)).map(([k, v]) => [k, v?.length]),
  );
}

test("a registration mails one link, and the link proves the address", async () => {
  expect(await readOutbox(database.ownerSql)).toMatchObject([
    { template: "verify-email", recipient: ANNA.email },
  ]);
  expect(await verifyEmail(deps, await last("verify-email"))).toMatchObject({
    id: userId,
    emailVerified: true,
  });
});

test("neither the links nor the outbox hold the token of a link", async () => {
  const token = await askForReset();
  const rows = await database.ownerSql`select * from links`;
  const mails = await database.ownerSql`select * from mail_outbox`;
  expect(JSON.stringify([rows, mails])).not.toContain(token);
  expect(JSON.stringify([rows, mails])).not.toContain(Buffer.from(token, "base64url").toString("hex"));
});

test("a registration that loses its transaction leaves neither account nor mail", async () => {
  const broken = { ...deps, linkTokens: { ...deps.linkTokens, tokenOf: () => "no token" } };
  await expect(register(broken, { ...ANNA, email: "ben@example.com" }, soon())).rejects.toThrow();
  expect(await database.ownerSql`select from users where email = 'ben@example.com'`).toHaveLength(0);
});

test("fifty uses of a verification link race: one succeeds", async () => {
  const token = await last("verify-email");
  const uses = Array.from({ length: 50 }, () => verifyEmail(deps, token));
  expect(await outcomesOf(uses)).toEqual({ ok: 1, verification_token_invalid: 49 });
});

test("fifty uses of a reset link race: one succeeds, and its password is the one that counts", async () => {
  const token = await askForReset();
  const uses = Array.from({ length: 50 }, (_, index) => reset(token, `a new password ${index}`));
  expect(await outcomesOf(uses)).toEqual({ ok: 1, reset_token_invalid: 49 });
  const winner = (await Promise.allSettled(uses)).findIndex(({ status }) => status === "fulfilled");
  const { password_hash: passwordHash } = await account();
  const credential = { id: userId, passwordHash };
  expect(await deps.passwords.verify(credential, `a new password ${winner}`, soon())).toBe("match");
  const notices = (await readOutbox(database.ownerSql)).filter(
    ({ template }) => template === "password-changed",
  );
  expect(notices).toHaveLength(1);
});

test.each([
  ["a verification link", 24 * HOUR_MS],
  ["a reset link", HOUR_MS / 2],
])("%s is valid until its last millisecond and not beyond", async (what, lifetimeMs) => {
  const isReset = what === "a reset link";
  const token = isReset ? await askForReset() : await last("verify-email");
  const use = (ms: number) => (isReset ? reset(token, NEW, later(ms)) : verifyEmail(later(ms), token));
  await expect(use(lifetimeMs)).rejects.toMatchObject({
    code: isReset ? "reset_token_invalid" : "verification_token_invalid",
  });
  await use(lifetimeMs - 1);
});

test("a newer verification link invalidates the older one; reset links stay valid until one of them is used", async () => {
  const verification = await last("verify-email");
  const [first, second, third] = [await askForReset(), await askForReset(), await askForReset()];
  expect(new Set([first, second, third]).size).toBe(3);
  await resendVerification(deps, ANNA);
  await deps.afterAnswer.drained();
  await expect(verifyEmail(deps, verification)).rejects.toMatchObject({ code: "verification_token_invalid" });
  await verifyEmail(deps, await last("verify-email"));
  await reset(second);
  await expect(reset(first)).rejects.toMatchObject({ code: "reset_token_invalid" });
  await expect(reset(third)).rejects.toMatchObject({ code: "reset_token_invalid" });
});

test("a link is valid for its own purpose only", async () => {
  const verification = await last("verify-email");
  const resetting = await askForReset();
  await expect(reset(verification)).rejects.toMatchObject({ code: "reset_token_invalid" });
  await expect(verifyEmail(deps, resetting)).rejects.toMatchObject({ code: "verification_token_invalid" });
});

test.each(["", "x", "x".repeat(43), "' or true --", "\u0000"])("%j is no link", async (token) => {
  await expect(reset(token)).rejects.toMatchObject({ code: "reset_token_invalid" });
  await expect(verifyEmail(deps, token)).rejects.toMatchObject({ code: "verification_token_invalid" });
});

test("the origin of a reset is recorded", async () => {
  const token = await askForReset();
  await resetPassword(deps, { token, newPassword: NEW, clientIp: "192.0.2.1" }, context());
  expect(
    await database.ownerSql`select type, ip from security_events where user_id = ${userId}`,
  ).toContainEqual({ type: "password_reset", ip: "192.0.2.1" });
  await emptyTables(database.ownerSql, "security_events");
  await reset(await askForReset(), "yet another password");
  expect(await database.ownerSql`select type, ip from security_events`).toEqual([
    { type: "password_reset", ip: "" },
  ]);
});

test("the owner's mail about a reset is sent at once, also while token-service is away", async () => {
  const token = await askForReset();
  deps.tokenService.revokeUserSessions.mockRejectedValueOnce(new DomainError("service_unavailable"));
  deps.wakeMailWorker.mockClear();
  await expect(reset(token)).rejects.toMatchObject({ code: "service_unavailable" });
  expect(deps.wakeMailWorker).toHaveBeenCalledOnce();
});

test("a reset to a password of a known breach is refused, and the link can be used again", async () => {
  const token = await askForReset();
  const passwordPolicy = { ...deps.passwordPolicy, breaches: [{ isBreached: async () => true }] };
  await expect(reset(token, NEW, { ...deps, passwordPolicy })).rejects.toMatchObject({
    code: "password_too_common",
  });
  await reset(token);
});

test("a reset changes the password, ends every session, mails a notice, and owes nothing when it is done", async () => {
  deps.tokenService.revokeUserSessions.mockResolvedValueOnce(["s1", "s2"]);
  expect(await reset(await askForReset())).toEqual({ userId, sessionIds: ["s1", "s2"] });
  expect(deps.tokenService.revokeUserSessions).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ userId, exceptSessionId: null, reason: "password_reset" }),
    expect.anything(),
  );
  expect(await database.ownerSql`select * from session_ends`).toEqual([]);
  expect((await readOutbox(database.ownerSql)).at(-1)).toMatchObject({
    template: "password-changed",
    recipient: ANNA.email,
    data: { occurredAt: "2031-01-02T03:04:05.678Z" },
  });
});

test.each([
  ["short", "password_too_short"],
  ["password1", "password_too_common"],
  ["I am anna@example.com", "password_contains_email"],
  ["x".repeat(129), "validation_failed"],
])("a reset to %j is %s, and the link can be used again", async (password, code) => {
  const token = await askForReset();
  await expect(reset(token, password)).rejects.toMatchObject({ code });
  await reset(token);
});

test("with token-service away a reset does not say that it is done, and the sessions' end is owed", async () => {
  const token = await askForReset();
  deps.tokenService.revokeUserSessions.mockRejectedValueOnce(new DomainError("service_unavailable"));
  await expect(reset(token)).rejects.toMatchObject({ code: "service_unavailable" });
  expect(await database.ownerSql`select * from session_ends`).toMatchObject([
    { user_id: userId, except_session_id: null, reason: "password_reset" },
  ]);
});

test("a disabled account gets no link, and its open ones are invalid", async () => {
  const token = await askForReset();
  await database.ownerSql`update users set status = 'disabled'`;
  await expect(reset(token)).rejects.toMatchObject({ code: "reset_token_invalid" });
  await askForReset();
  expect(await tokens("reset-password")).toHaveLength(1);
});

test("asking is answered before anything is looked up, alike for every address", async () => {
  const hold = vi.spyOn(deps.sql.pool, "hold");
  const asked = [ANNA.email, "nobody@example.com", "not an address"].map((email) =>
    forgotPassword(deps, { email }),
  );
  expect(await Promise.all(asked)).toEqual([undefined, undefined, undefined]);
  expect(hold).not.toHaveBeenCalled();
  await deps.afterAnswer.drained();
  expect(await tokens("reset-password")).toHaveLength(1);
  expect(deps.logLines.join("")).not.toContain("failed");
});

test("a network that requests too many mails gets 429, whatever their recipients, and others do not", async () => {
  const limits = throttleLimits({ network: 100, everything: 100, callsOfNetwork: 3, calls: 5 });
  const limited = { ...deps, throttle: new MemoryThrottle({ limits, now: () => deps.now().getTime() }) };
  const run = vi.spyOn(deps.afterAnswer, "run");
  const asked = Array.from({ length: 9 }, (_, index) => ({
    email: index % 2 === 0 ? ANNA.email : "nobody@example.com",
    clientIp: `2001:db8::${index}`,
  }));
  const refusals = await Promise.all(asked.map((ask) => forgotPassword(limited, ask).catch((e) => e)));
  expect(run).toHaveBeenCalledTimes(3);
  const refusal = { code: "too_many_requests", retryAfterMs: 300_000, limit: 3 };
  for (const each of refusals.slice(3)) expect(each).toMatchObject(refusal);
  await resendVerification(limited, { ...ANNA, clientIp: "2001:db8::1" });
  await forgotPassword(limited, { ...ANNA, clientIp: "192.0.2.1" });
  await deps.afterAnswer.drained();
  run.mockRestore();
});

/** Deps whose strangers' budget is used up. */
async function flooded() {
  const limits = throttleLimits({ network: 100, everything: 100, callsOfNetwork: 10, calls: 2 });
  const throttle = new MemoryThrottle({ limits, now: () => deps.now().getTime() });
  for (let index = 0; index < 3; index += 1) {
    for (const kind of ["forgot_password", "resend_verification"] as const)
      await throttle.spend({ kind, clientIp: `198.51.100.${index}` });
  }
  return { ...deps, throttle };
}

const phone = () => ({
  clientIp: "192.0.2.1",
  deviceToken: deps.deviceTokens.issue({ id: uuidv7(), userId }),
});

test("in a flood of strangers, a known device gets the mail and an invented one gets 429", async () => {
  const limited = await flooded();
  const stranger = { ...ANNA, clientIp: "192.0.2.1" };
  await expect(forgotPassword(limited, stranger)).rejects.toMatchObject({ code: "too_many_requests" });
  const { deviceToken } = phone();
  for (const forged of [`${deviceToken.slice(0, -2)}AA`, "new", `2.${userId}.${uuidv7()}.0.9999999999.AAAA`])
    await expect(forgotPassword(limited, { ...stranger, deviceToken: forged })).rejects.toMatchObject({
      code: "too_many_requests",
    });
  await forgotPassword(limited, { ...stranger, deviceToken });
  await resendVerification(limited, { ...stranger, deviceToken });
  await deps.afterAnswer.drained();
  expect(await tokens("reset-password")).toHaveLength(1);
  expect(await tokens("verify-email")).toHaveLength(2); // the registration's is the first
});

test("a flood of strangers: a device is not known any more after a new password", async () => {
  const limited = await flooded();
  const asked = { ...ANNA, ...phone() };
  await reset(await askForReset());
  await expect(forgotPassword(limited, asked)).rejects.toMatchObject({ code: "too_many_requests" });
});

test("a flood of strangers: a known device is answered alike for every address, five times", async () => {
  const limited = await flooded();
  const asked = phone();
  for (const email of [ANNA.email, "nobody@example.com", "not an address", ANNA.email, ANNA.email])
    expect(await forgotPassword(limited, { ...asked, email })).toBeUndefined();
  for (const email of [ANNA.email, "nobody@example.com"])
    await expect(forgotPassword(limited, { ...asked, email })).rejects.toMatchObject({
      code: "too_many_requests",
    });
  await deps.afterAnswer.drained();
});

test("a known device keeps its calls for a flood of strangers", async () => {
  const limits = throttleLimits({ network: 100, everything: 100, callsOfNetwork: 20, calls: 5 });
  const limited = { ...deps, throttle: new MemoryThrottle({ limits, now: () => deps.now().getTime() }) };
  const asked = { ...phone(), email: "nobody@example.com" };
  for (let index = 0; index < 10; index += 1) await forgotPassword(limited, asked);
  await expect(forgotPassword(limited, asked)).rejects.toMatchObject({ code: "too_many_requests" });
  await deps.afterAnswer.drained();
});

test("neighbours use up the network's budget: a known device behind it asks all the same", async () => {
  const limits = throttleLimits({ network: 100, everything: 100, callsOfNetwork: 1, calls: 100 });
  const limited = { ...deps, throttle: new MemoryThrottle({ limits, now: () => deps.now().getTime() }) };
  const neighbour = { ...ANNA, clientIp: "192.0.2.1" };
  await forgotPassword(limited, { ...neighbour, email: "nobody@example.com" });
  await expect(forgotPassword(limited, neighbour)).rejects.toMatchObject({ limit: 1 });
  await forgotPassword(limited, { ...ANNA, ...phone() });
  await deps.afterAnswer.drained();
  expect(await tokens("reset-password")).toHaveLength(1);
});

test("strangers take all of their places: known devices and networks have places of their own", async () => {
  const { logger } = deps;
  const limited = { ...deps, afterAnswer: createAfterAnswer({ maxPending: 2, logger }) };
  await rememberNetwork(database.sql, deps, {
    userId,
    email: ANNA.email,
    passwordEpoch: 0,
    clientIp: "203.0.113.1",
  });
  const busy = Promise.withResolvers<void>();
  for (let index = 0; index < 2; index += 1) limited.afterAnswer.run("flood", () => busy.promise);
  const stranger = { ...ANNA, clientIp: "192.0.2.1" };
  await expect(forgotPassword(limited, stranger)).rejects.toMatchObject({ code: "busy" });
  await forgotPassword(limited, { ...ANNA, ...phone() });
  await forgotPassword(limited, { ...ANNA, clientIp: "203.0.113.1" });
  busy.resolve();
  await limited.afterAnswer.drained();
  expect(await tokens("reset-password")).toHaveLength(2);
});

test("links that are tried out are counted for their network, before they are looked up", async () => {
  const limits = throttleLimits({ network: 100, everything: 100, callsOfNetwork: 5 });
  const limited = { ...deps, throttle: new MemoryThrottle({ limits, now: () => deps.now().getTime() }) };
  const token = await askForReset();
  const tryOut = (link: string) =>
    resetPassword(limited, { token: link, newPassword: NEW, clientIp: "192.0.2.1" }, context());
  for (let index = 0; index < 5; index += 1) {
    await expect(tryOut("A".repeat(43))).rejects.toMatchObject({ code: "reset_token_invalid" });
  }
  deps.argon2.hash.mockClear();
  await expect(tryOut(token)).rejects.toMatchObject({ code: "too_many_requests", limit: 5 });
  expect(deps.argon2.hash).not.toHaveBeenCalled();
});

test("an account gets three mails of a kind an hour, however many ask at once", async () => {
  for (let index = 0; index < 20; index += 1) {
    await forgotPassword(deps, { email: "ANNA@example.com" });
    await resendVerification(deps, ANNA);
  }
  await deps.afterAnswer.drained();
  expect(await tokens("reset-password")).toHaveLength(3);
  expect(await tokens("verify-email")).toHaveLength(3); // the registration's is the first
  await askForReset(later(HOUR_MS));
  expect(await tokens("reset-password")).toHaveLength(4);
});

test("there is another verification mail until the credentials are proven, not only the address", async () => {
  await verifyEmail(deps, await last("verify-email"));
  await resendVerification(deps, ANNA);
  await deps.afterAnswer.drained();
  expect(await tokens("verify-email")).toHaveLength(2);
  const proven = { token: await last("verify-email"), sessionUserId: userId, password: "", clientIp: "" };
  await verify(deps, proven, context());
  await resendVerification(deps, ANNA);
  await deps.afterAnswer.drained();
  expect(await tokens("verify-email")).toHaveLength(2);
});

test("a resent link takes the place of the registration's", async () => {
  const first = await last("verify-email");
  await resendVerification(deps, ANNA);
  await deps.afterAnswer.drained();
  await expect(verifyEmail(deps, first)).rejects.toMatchObject({ code: "verification_token_invalid" });
  await verifyEmail(deps, await last("verify-email"));
});

test("where registration says nothing, a taken address gets the same answer, and its owner one mail an hour", async () => {
  const quiet = { ...deps, registrationDiscloses: false };
  const fresh = await register(quiet, { ...ANNA, email: "new@example.com" }, soon());
  const taken = await register(quiet, { ...ANNA, firstName: "Eve" }, soon());
  await register(quiet, { ...ANNA, firstName: "Eve" }, soon());
  expect(Object.keys(taken)).toEqual(Object.keys(fresh));
  expect(taken).toMatchObject({ email: ANNA.email, firstName: "Eve", emailVerified: false, role: "USER" });
  expect(taken.id).not.toBe(userId);
  expect(await database.ownerSql`select first_name from users where email = ${ANNA.email}`).toEqual([
    { first_name: "Anna" },
  ]);
  const notices = (await readOutbox(database.ownerSql)).filter(
    ({ template }) => template === "registration-attempt",
  );
  // The second is a commit like the first, and no mail.
  expect(notices.map(({ recipient }) => recipient).sort()).toEqual([ANNA.email, null].sort());
});

test("links that are long over are deleted, others stay", async () => {
  await askForReset();
  await deleteOldLinks(later(24 * HOUR_MS));
  expect(await database.ownerSql`select purpose from links`).toHaveLength(2);
  await deleteOldLinks(later(25 * HOUR_MS));
  expect(await database.ownerSql`select purpose from links`).toEqual([{ purpose: "verify_email" }]);
});

test("the service's role can prolong no link and change no link's owner", async () => {
  for (const statement of [
    database.sql`update links set user_id = ${userId}`,
    database.sql`update links set expires_at = now()`,
    database.sql`update users set id = ${userId}`,
    database.sql`update users set created_at = now()`,
  ]) {
    await expect(statement).rejects.toMatchObject({ code: "42501" });
  }
});

test("a reset unlocks an owner who was locked out by others' guesses", async () => {
  const guess = { account: ANNA.email, clientIp: "192.0.2.1" };
  for (let index = 0; index < 5; index += 1) await deps.throttle.take(guess);
  const fromElsewhere = { ...guess, clientIp: "198.51.100.1" };
  expect(await deps.throttle.take(fromElsewhere)).toEqual({ kind: "locked" });
  await reset(await askForReset());
  expect(await deps.throttle.take(fromElsewhere)).toEqual({ kind: "admitted" });
});

test("a link that expires between its look-up and its use is not used", async () => {
  await askForReset();
  const [link] = await database.ownerSql<{ id: string; expiresAt: Date }[]>`
    select id, expires_at as "expiresAt" from links where purpose = 'reset_password'`;
  if (link === undefined) throw new Error("no link");
  const use = (ms: number) =>
    transaction(database.sql, (tx) => consumeLink(tx, link.id, new Date(link.expiresAt.getTime() + ms)));
  expect(await use(0)).toBe(false);
  expect(await use(-1)).toBe(true);
});

test("a link keeps nothing that it is not for", async () => {
  const links = await database.ownerSql`select new_email, are_credentials_proven, session_id from links`;
  expect(links).toEqual([{ new_email: null, are_credentials_proven: false, session_id: null }]);
});

test("a used link cannot be used to guess the password", async () => {
  const token = await last("verify-email");
  await verifyEmail(deps, token);
  deps.argon2.verify.mockClear();
  const guess = { token, sessionUserId: "", password: "guess", clientIp: "" };
  await expect(verify(deps, guess, context())).rejects.toMatchObject({ code: "verification_token_invalid" });
  expect(deps.argon2.verify).not.toHaveBeenCalled();
});

test("an account that is erased while its link is used is refused like a wrong link", async () => {
  const token = await last("verify-email");
  const { verify: verifyPassword } = deps.passwords;
  deps.passwords.verify = async (...args) => {
    const verdict = await verifyPassword(...args);
    await database.ownerSql`delete from users`;
    return verdict;
  };
  const proof = { token, sessionUserId: "", password: ANNA.password, clientIp: "" };
  await expect(verify(deps, proof, context())).rejects.toMatchObject({ code: "verification_token_invalid" });
});

test("an account that is erased while its password is reset is refused like a wrong link", async () => {
  const token = await askForReset();
  const spend = deps.throttle.spend.bind(deps.throttle);
  deps.throttle.spend = async (call) => {
    await database.ownerSql`delete from users`;
    return spend(call);
  };
  await expect(reset(token)).rejects.toMatchObject({ code: "reset_token_invalid" });
});

test("verifying the address unlocks the account, and is recorded as the owner's", async () => {
  const guess = { account: ANNA.email, clientIp: "192.0.2.1" };
  for (let index = 0; index < 5; index += 1) await deps.throttle.take(guess);
  expect(await deps.throttle.take(guess)).toEqual({ kind: "locked" });
  const proof = { sessionUserId: "", password: "", clientIp: "192.0.2.1" };
  await verify(deps, { token: await last("verify-email"), ...proof }, context());
  expect(await deps.throttle.take(guess)).toEqual({ kind: "admitted" });
  expect(
    await database.ownerSql`select actor_id, ip from security_events where type = 'email_verified'`,
  ).toEqual([{ actor_id: userId, ip: "192.0.2.1" }]);
});

test("the mail worker is not woken without a mail", async () => {
  const limited = { ...deps, mailLimits: { ...deps.mailLimits, resetsPerDay: 0 } };
  deps.wakeMailWorker.mockClear();
  await forgotPassword(limited, { email: ANNA.email });
  await forgotPassword(deps, { email: "nobody@example.com" });
  await deps.afterAnswer.drained();
  expect(deps.wakeMailWorker).not.toHaveBeenCalled();
  expect(deps.logLines.join()).not.toContain("failed");
  await askForReset();
  expect(deps.wakeMailWorker).toHaveBeenCalledOnce();
});

test("a used reset link does not count as open: the next one comes at once, also as the fourth of an hour", async () => {
  for (let index = 0; index < 3; index += 1) await askForReset();
  await reset(await last("reset-password"));
  await askForReset();
  expect(await tokens("reset-password")).toHaveLength(4);
});

test("a verification mail that is not sent invalidates no earlier link", async () => {
  const first = await last("verify-email");
  const spent = { ...deps, mailLimits: { ...deps.mailLimits, strangersPerHour: 1 } };
  await resendVerification(spent, ANNA);
  await deps.afterAnswer.drained();
  await verifyEmail(deps, first);
});

test("a valid reset link works even if strangers have used up all calls", async () => {
  const token = await askForReset();
  const limits = throttleLimits({ network: 100, everything: 100, calls: 1 });
  const limited = { ...deps, throttle: new MemoryThrottle({ limits, now: () => deps.now().getTime() }) };
  await limited.throttle.spend({ kind: "reset_password", clientIp: "198.51.100.1" });
  await expect(reset("A".repeat(43), NEW, limited)).rejects.toMatchObject({ code: "too_many_requests" });
  await reset(token, NEW, limited);
});

test("a reset that cannot look its link up is unavailable, and says nothing of the link", async () => {
  const token = await askForReset();
  const broken = Object.assign(() => Promise.reject(new DomainError("service_unavailable")), {
    pool: deps.sql.pool,
  }) as unknown as typeof deps.sql;
  await expect(reset(token, NEW, { ...deps, sql: broken })).rejects.toMatchObject({
    code: "service_unavailable",
  });
});

test("a refused password is named as the request names it", async () => {
  await expect(reset(await askForReset(), "x".repeat(129))).rejects.toMatchObject({
    fields: [{ field: "newPassword", code: "too_long" }],
  });
});

describe("a reset", () => {
  const link = (provider: string, daysAgo: number) => database.ownerSql`
    insert into external_identities (issuer, subject, user_id, provider, linked_at)
    values (${`https://${provider}.example`}, 'sub', ${userId}, ${provider},
      ${later(-daysAgo * 24 * HOUR_MS).now()})`;
  const noticed = async () =>
    (await readOutbox(database.ownerSql)).find(({ template }) => template === "password-reset")?.data;
  const events = async () =>
    (
      await database.ownerSql`
        select type, actor_id from security_events where type <> 'user_registered' order by id`
    ).map((row) => [row.type, row.actor_id === userId]);
  const providersLeft = async () =>
    (await database.ownerSql`select provider from external_identities order by provider`).map(
      ({ provider }) => provider,
    );
  const plantFactor = () => database.ownerSql`
    insert into totp_credentials (user_id, secret_encrypted, key_id, created_at, confirmed_at)
    values (${userId}, decode(repeat('00', 48), 'hex'), '0123456789abcdef', ${deps.now()}, ${deps.now()})`;

  test("of an unproven account removes all access, and proves it", async () => {
    await link("early", 31);
    await plantFactor();
    await reset(await askForReset());
    expect(await providersLeft()).toEqual([]);
    expect(await database.ownerSql`select from totp_credentials`).toHaveLength(0);
    expect(await account()).toMatchObject({ credentials_proven_email: ANNA.email });
    expect(await events()).toContainEqual(["password_reset", true]);
  });

  const linkedSince = (provider: string, linkedAt: string) => ({
    phrase: "provider-login-since",
    values: { provider, linkedAt },
  });

  describe("of a proven account", () => {
    beforeEach(() => proveCredentials(database.ownerSql, userId));

    test("takes the logins of the last 30 days, leaves older ones and the factor, and its mail names them", async () => {
      await link("first", 29);
      await link("second", 1);
      await link("old", 31);
      await link("older", 32);
      await plantFactor();
      await reset(await askForReset());
      expect(await providersLeft()).toEqual(["old", "older"]);
      expect(await noticed()).toEqual({
        occurredAt: "2031-01-02T03:04:05.678Z",
        removed: [
          { phrase: "provider-login", values: { provider: "first" } },
          { phrase: "provider-login", values: { provider: "second" } },
        ],
        left: [
          linkedSince("older", "2030-12-01T03:04:05.678Z"),
          linkedSince("old", "2030-12-02T03:04:05.678Z"),
          { phrase: "second-factor-since", values: { enabledAt: "2031-01-02T03:04:05.678Z" } },
        ],
      });
      expect(await events()).toEqual([
        ["identity_unlinked", true],
        ["identity_unlinked", true],
        ["password_reset", true],
      ]);
    });

    test("takes none of them if it is asked to keep them", async () => {
      await link("first", 29);
      const token = await askForReset();
      await resetPassword(deps, { token, newPassword: NEW, keepRecentLogins: true }, context());
      expect(await providersLeft()).toEqual(["first"]);
      expect(await noticed()).toMatchObject({
        removed: [{ phrase: "nothing" }],
        left: [linkedSince("first", "2030-12-04T03:04:05.678Z")],
      });
    });

    test("says so where there was nothing but the password", async () => {
      await reset(await askForReset());
      expect(await noticed()).toMatchObject({
        removed: [{ phrase: "nothing" }],
        left: [{ phrase: "nothing" }],
      });
    });
  });
});
