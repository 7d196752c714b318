import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { toRpcError } from "#kit/rpc/rpc-errors.ts";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { createGuessNotices } from "../accounts/guess-notices.ts";
import { register } from "../accounts/register.ts";
import { hasNoticeBudget } from "../mail/mail-budget-store.ts";
import { createHashShare } from "../passwords/hash-share.ts";
import { soon, testDeps } from "../testing/test-deps.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { throttleLimits } from "../throttle/throttle.ts";
import type { Account } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { type LoginAttempt, logIn as logInWith } from "./log-in.ts";
import { rememberDevice } from "./remember-device.ts";

const EMAIL = "anna.smith@example.com";
const PASSWORD = "Password123!";

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
let anna: Account;
let nowMs: number;

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "users", "counted_mails", "mail_outbox");
  deps = await testDeps(database.sql);
  nowMs = deps.now().getTime();
  const registration = { email: EMAIL, password: PASSWORD, firstName: "Anna", lastName: "Smith" };
  await register(deps, registration, soon());
  const [row] = await database.ownerSql<{ id: string }[]>`select id from users`;
  const registered = await findAccountById(database.sql, row?.id ?? "");
  if (registered === undefined) throw new Error("not registered");
  anna = registered;
  deps.argon2.hash.mockClear();
  await emptyTables(database.ownerSql, "mail_outbox");
});
afterAll(() => database.drop());

function limitTo(network: number, everything = 100_000): void {
  const limits = throttleLimits({ network, everything });
  deps.throttle = new MemoryThrottle({ limits, now: () => nowMs });
}
const logIn = (attempt: Partial<LoginAttempt> = {}) =>
  logInWith(
    deps,
    {
      email: EMAIL,
      password: PASSWORD,
      clientIp: "192.0.2.1",
      userAgent: "Firefox/1 Windows",
      deviceToken: "",
      ...attempt,
    },
    newCallContext({ budgetMs: 60_000 }),
  );
const codeOf = (attempt: Partial<LoginAttempt>) =>
  logIn(attempt).then(
    () => "in",
    (error: DomainError) => error.code,
  );
/** Sequential, so that no attempt times out in a queue on a slow machine. */
async function fail(times: number, attempt: Partial<LoginAttempt> = {}): Promise<void> {
  for (let time = 0; time < times; time += 1) await codeOf({ password: "wrong", ...attempt });
}
/** No password is verified before the returned function is called. */
function holdHashes(): () => void {
  const released = Promise.withResolvers<void>();
  const { verify } = deps.passwords;
  deps.passwords.verify = async (...work) => {
    await released.promise;
    return verify(...work);
  };
  return () => {
    deps.passwords.verify = verify;
    released.resolve();
  };
}
const guesses = (count: number, make: (index: number) => Partial<LoginAttempt>) =>
  Promise.all(Array.from({ length: count }, (_, index) => codeOf(make(index))));

test("200 parallel guesses from one network with a budget of 5 reach argon2 at most 5 times", async () => {
  limitTo(5);
  const codes = await guesses(200, (index) => ({ password: `guess ${index}` }));
  const tried = codes.filter((code) => code === "invalid_credentials").length;
  // On a slow machine some of the five wait in vain for their turn.
  expect(tried).toBeGreaterThanOrEqual(1);
  expect(tried).toBeLessThanOrEqual(5);
  expect(deps.argon2.verify).toHaveBeenCalledTimes(tried);
  const refused = codes.filter((code) => code === "too_many_requests" || code === "busy").length;
  expect(refused).toBe(200 - tried);
});

test("200 parallel guesses from one network at 200 accounts with a budget of 5 reach argon2 at most 5 times", async () => {
  limitTo(5);
  const codes = await guesses(200, (index) => ({ email: `user${index}@example.com` }));
  expect(deps.argon2.verify).toHaveBeenCalledTimes(5);
  expect(codes.filter((code) => code === "too_many_requests")).toHaveLength(195);
});

// On a slow machine some wait too long for their turn. No right password may be answered as a wrong one.
function expectAllInOrBusy(codes: string[]): void {
  expect(codes).toContain("in");
  expect(codes.filter((code) => code !== "in" && code !== "busy")).toEqual([]);
}

test("20 parallel right logins of one account: none fails as a wrong password", async () => {
  limitTo(1_000);
  expectAllInOrBusy(await guesses(20, (index) => ({ clientIp: `192.0.2.${index}` })));
  await expect(logIn()).resolves.toHaveProperty("tokens");
});

test("four failures and then 20 parallel right logins: none fails as a wrong password", async () => {
  limitTo(1_000);
  await guesses(4, () => ({ password: "wrong" }));
  expectAllInOrBusy(await guesses(20, () => ({})));
  await expect(logIn()).resolves.toHaveProperty("tokens");
});

test("waiting in vain for a turn ends with busy, whether or not the account exists", async () => {
  limitTo(1_000);
  for (const email of [EMAIL, "nobody@example.com"]) {
    const release = holdHashes();
    const codes: string[] = [];
    const guessing = Array.from({ length: 200 }, async () => {
      codes.push(await codeOf({ email, password: "wrong" }));
    });
    // One has its turn, and 32 wait for theirs: on a slow machine already in vain.
    await expect.poll(() => codes.length).toBeGreaterThanOrEqual(167);
    expect(new Set(codes)).toEqual(new Set(["busy"]));
    release();
    await Promise.all(guessing);
    // On a slow machine some of these wait in vain, too.
    expect(codes).toContain("invalid_credentials");
    expect(codes.filter((code) => code !== "invalid_credentials" && code !== "busy")).toEqual([]);
  }
});

test("an attempt that ends in an error gives its turn back", async () => {
  limitTo(1_000);
  const { verify } = deps.passwords;
  deps.passwords.verify = () => Promise.reject(new Error("a defect"));
  await expect(logIn()).rejects.toThrow("a defect");
  deps.passwords.verify = verify;
  expect(await codeOf({})).toBe("in");
});

test("a network that has used up its share of the hash queue gets busy, and leaves the rest to others", async () => {
  limitTo(1_000);
  deps.hashShare = createHashShare({ maxOfNetwork: 3, maxOfStrangers: 1_000 });
  // Else a later guess gets the share that an earlier one gave back.
  const release = holdHashes();
  const codes: string[] = [];
  const emails = (index: number) => `user${index}@example.com`;
  const flood = Array.from({ length: 20 }, async (_, index) => {
    codes.push(await codeOf({ email: emails(index), clientIp: `2001:db8::${index}` }));
  });
  const other = codeOf({ clientIp: "203.0.113.1" });
  await expect.poll(() => codes).toEqual(Array(17).fill("busy"));
  release();
  await Promise.all(flood);
  expect(codes.slice(17)).toEqual(Array(3).fill("invalid_credentials"));
  expect(await other).toBe("in");
  expect(await codeOf({ email: emails(1), clientIp: "2001:db8::1" })).toBe("invalid_credentials");
  expect(deps.argon2.verify).toHaveBeenCalledTimes(3 + 1 + 1);
});

test("200 parallel guesses at one account from 200 networks: its own hash is looked at 5 times", async () => {
  limitTo(1_000);
  const [row] = await database.ownerSql<{ hash: string }[]>`select password_hash as hash from users`;
  // The last guess is right; it is too late.
  const codes = await guesses(200, (index) => ({
    password: index === 199 ? PASSWORD : `guess ${index}`,
    clientIp: `192.0.2.${index}`,
  }));
  expect(new Set(codes)).toEqual(new Set(["invalid_credentials", "busy"]));
  const looks = deps.argon2.verify.mock.calls.filter(([hash]) => hash === row?.hash).length;
  // On a slow machine some of the five wait in vain for their turn.
  expect(looks).toBeGreaterThanOrEqual(1);
  expect(looks).toBeLessThanOrEqual(5);
});

/** What the caller sees of each attempt, byte for byte, and the work for it. */
async function answersTo(attempts: Partial<LoginAttempt>[]): Promise<string[]> {
  const answers: string[] = [];
  for (const attempt of attempts) {
    deps.argon2.verify.mockClear();
    const error = await logIn(attempt).catch((refusal: unknown) => refusal);
    const { code, details, metadata } = toRpcError(error);
    answers.push(JSON.stringify([code, details, metadata, deps.argon2.verify.mock.calls.length]));
  }
  return answers;
}
const waitOf = (attempt: Partial<LoginAttempt>) =>
  logIn(attempt).then(
    () => "in",
    ({ code, retryAfterMs }: DomainError) => `${code} ${retryAfterMs}`,
  );
const NO_WAIT = "invalid_credentials undefined";

test("wrong, right but locked, disabled and unknown are the same bytes and the same work, try for try", async () => {
  limitTo(1_000);
  const attempts = (email: string, last: string) =>
    [...Array<string>(6).fill("wrong"), last].map((password) => ({ email, password }));
  const unknown = await answersTo(attempts("nobody@example.com", "wrong"));
  expect(new Set(unknown.slice(0, 4)).size).toBe(1);
  expect(new Set(unknown.slice(4)).size).toBe(1);
  expect(unknown[4]).toContain("Too many tries for this address lately");
  expect(await answersTo(attempts(EMAIL, "wrong"))).toEqual(unknown);
  limitTo(1_000);
  expect(await answersTo(attempts(EMAIL, PASSWORD))).toEqual(unknown);
  limitTo(1_000);
  await database.ownerSql`update users set status = 'disabled'`;
  expect(await answersTo(attempts(EMAIL, PASSWORD))).toEqual(unknown);
});

test("how many tries there were is told by address and network, and counts down whatever is tried", async () => {
  limitTo(1_000);
  await fail(4);
  expect(await waitOf({ password: "wrong" })).toBe("invalid_credentials 300000");
  nowMs += 10_000;
  expect(await waitOf({})).toBe("invalid_credentials 290000");
  expect(await waitOf({ clientIp: "198.51.100.1" })).toBe(NO_WAIT);
  expect(await waitOf({ email: "nobody@example.com" })).toBe(NO_WAIT);
});

test("who has tried sees nothing of an owner who logs in elsewhere or here, nor of a cleared account", async () => {
  for (const act of [
    async () => undefined,
    () => deps.throttle.clear(EMAIL),
    () => deps.throttle.forget(EMAIL),
    async () => expect(await codeOf({ clientIp: "198.51.100.1" })).toBe("in"),
    async () => expect(await codeOf({})).toBe("in"),
  ]) {
    limitTo(1_000);
    const own = deps.deviceTokens.issue({ id: deps.newId(), userId: anna.id });
    await fail(3);
    await act();
    await fail(1);
    expect(await waitOf({ password: "wrong" })).toBe("invalid_credentials 300000");
    // The device changes nothing of it either, but whether the password is looked at.
    expect(await waitOf({ password: "wrong", deviceToken: own })).toBe("invalid_credentials 300000");
    expect(await waitOf({ deviceToken: own })).toBe("in");
  }
});

test("after the 5th failure the right password gets in half a minute later, and clears the count", async () => {
  limitTo(1_000);
  await guesses(5, () => ({ password: "wrong" }));
  expect(await codeOf({})).toBe("invalid_credentials");
  nowMs += 30_000;
  expect(await codeOf({})).toBe("in");
  await guesses(4, () => ({ password: "wrong" }));
  expect(await codeOf({})).toBe("in");
});

test("the owner on a known device gets in while an attacker hammers", async () => {
  limitTo(10_000);
  await logIn();
  const deviceToken = await rememberDevice(deps, {
    user: anna,
    clientIp: "",
    userAgent: "",
    deviceToken: "",
  });
  const attack = guesses(60, (index) => ({ password: "wrong", clientIp: `192.0.2.${index}` }));
  await attack;
  expect(await codeOf({ clientIp: "203.0.113.1" })).toBe("invalid_credentials");
  expect(await codeOf({ clientIp: "203.0.113.1", deviceToken })).toBe("in");
});

test("a device token of another account, or of no account, has no effect", async () => {
  limitTo(10_000);
  const other = deps.deviceTokens.issue({ id: deps.newId(), userId: deps.newId() });
  await guesses(5, () => ({ password: "wrong" }));
  for (const deviceToken of [other, "1.2.3.4.5", "x"]) {
    expect(await codeOf({ deviceToken })).toBe("invalid_credentials");
  }
});

test("a known device has a budget of its own, and no more", async () => {
  limitTo(10_000);
  const deviceToken = deps.deviceTokens.issue({ id: deps.newId(), userId: anna.id });
  await guesses(5, () => ({ password: "wrong", deviceToken }));
  expect(await codeOf({ deviceToken })).toBe("invalid_credentials");
  expect(await codeOf({})).toBe("in");
});

test("one password against 1,000 accounts from one /64: 100 are tried, the rest get 429 and a time", async () => {
  limitTo(100);
  // A hasher that costs nothing: only how often it is reached counts here.
  let hashed = 0;
  deps.passwords = {
    ...deps.passwords,
    verify: async () => {
      hashed += 1;
      return "mismatch";
    },
  };
  const codes = new Map<string, number>();
  for (let batch = 0; batch < 10; batch += 1) {
    const some = await guesses(100, (index) => ({
      email: `user${batch}x${index}@example.com`,
      clientIp: `2001:db8:0:7::${(batch * 100 + index + 1).toString(16)}`,
    }));
    for (const code of some) codes.set(code, (codes.get(code) ?? 0) + 1);
  }
  expect(hashed).toBe(100);
  expect(Object.fromEntries(codes)).toEqual({ invalid_credentials: 100, too_many_requests: 900 });
  const refusal = await logIn({ clientIp: "2001:db8:0:7::1" }).catch((error: unknown) => error);
  expect(refusal).toMatchObject({ code: "too_many_requests", retryAfterMs: 9_000 });
  expect(await codeOf({ clientIp: "2001:db8:0:8::1" })).toBe("invalid_credentials");
});

test("a busy or unavailable attempt is not counted", async () => {
  limitTo(5);
  const { verify } = deps.passwords;
  deps.passwords.verify = () => Promise.reject(new DomainError("busy"));
  expect(new Set(await guesses(5, () => ({})))).toEqual(new Set(["busy"]));
  deps.passwords.verify = verify;
  expect(await codeOf({})).toBe("in");
});

test("without disclosure, a login after a registration answers alike for a free and a taken address, byte for byte", async () => {
  deps.registrationDiscloses = false;
  deps.loginRequiresVerifiedEmail = true;
  await database.ownerSql`update users set email_verified = true`;
  const tryAddress = async (email: string) => {
    limitTo(20);
    const registration = { email, password: "Attacker-1234", firstName: "A", lastName: "B" };
    await register(deps, registration, soon());
    const answers: unknown[] = [];
    deps.argon2.verify.mockClear();
    for (let round = 0; round < 25; round += 1) {
      const error = await logIn({ email, password: "Attacker-1234" }).catch((refusal: unknown) => refusal);
      const { code, details, metadata } = toRpcError(error);
      answers.push([code, details, metadata?.toJSON()]);
    }
    return [answers, deps.argon2.verify.mock.calls.length];
  };
  const taken = await tryAddress(EMAIL);
  expect(await tryAddress("free@example.com")).toEqual(taken);
  expect(JSON.stringify(taken)).not.toContain("email_not_verified");
  const reasons = deps.noteFailedLogin.mock.calls.map(([{ reason, code }]) => `${reason} ${code}`);
  expect(new Set(reasons)).toEqual(
    new Set([
      "wrong_password invalid_credentials",
      "email_not_verified invalid_credentials",
      "locked invalid_credentials",
    ]),
  );
});

function guessNotices(now = deps.now) {
  const notify = createGuessNotices({ ...deps, now });
  deps.notifyOwnerOfGuesses.mockImplementation((account) => notify(account));
  return async () => {
    await deps.afterAnswer.drained();
    return database.ownerSql<{ recipient: string; data: { link: string } }[]>`
      select recipient, data from mail_outbox where template = 'account-guessed-at' order by created_at`;
  };
}

test("the wrong password that locks an account sends its owner a mail with a link, once a day", async () => {
  limitTo(1_000);
  let at = deps.now();
  const rows = guessNotices(() => at);
  await guesses(4, () => ({ password: "wrong" }));
  expect(await rows()).toEqual([]);
  await guesses(1, () => ({ password: "wrong" }));
  expect(await rows()).toEqual([
    {
      recipient: EMAIL,
      data: { link: expect.stringMatching(/^\S+$/), occurredAt: "2031-01-02T03:04:05.678Z" },
    },
  ]);
  for (let round = 0; round < 5; round += 1) await codeOf({ password: "wrong" });
  const another = createGuessNotices(deps); // of another replica
  another(EMAIL);
  expect(await rows()).toHaveLength(1);
  const links = await database.ownerSql`select from links where purpose = 'reset_password'`;
  expect(links).toHaveLength(1);
  at = new Date(at.getTime() + 24 * 3_600_000);
  await codeOf({ password: "wrong" });
  expect(await rows()).toHaveLength(2);
});

test("where the owner of an unproven address has had enough mails, a guess makes no reset link either", async () => {
  limitTo(1_000);
  const rows = guessNotices();
  const notice = { userId: anna.id, recipient: EMAIL };
  const spendOne = () =>
    transaction(deps.sql, (tx) => hasNoticeBudget(tx, { ...notice, id: deps.newId() }, deps.now()));
  while (await spendOne());
  await guesses(5, () => ({ password: "wrong" }));
  expect(await rows()).toEqual([]);
  expect(await database.ownerSql`select from links where purpose = 'reset_password'`).toEqual([]);
});

test("an address without an account, a disabled one and one without a password are looked up and get no mail", async () => {
  limitTo(1_000);
  const rows = guessNotices();
  await guesses(6, () => ({ email: "nobody@example.com", password: "wrong" }));
  await database.ownerSql`update users set status = 'disabled'`;
  await guesses(6, () => ({ password: "wrong" }));
  await database.ownerSql`update users set status = 'active', password_hash = null`;
  createGuessNotices(deps)(EMAIL);
  expect(await rows()).toEqual([]);
  const called = new Set(deps.notifyOwnerOfGuesses.mock.calls.flat());
  expect(called).toEqual(new Set(["nobody@example.com", EMAIL]));
});

test("where too much waits, a guess is answered all the same and the next one tries again", async () => {
  limitTo(1_000);
  const rows = guessNotices();
  const { run } = deps.afterAnswer;
  const full = vi.spyOn(deps.afterAnswer, "run").mockImplementation(() => {
    throw new DomainError("busy");
  });
  await fail(5);
  expect(await rows()).toEqual([]);
  full.mockImplementation(run);
  expect(await codeOf({ password: "wrong" })).toBe("invalid_credentials");
  expect(await rows()).toHaveLength(1);
});

const mails = () =>
  database.ownerSql<{ recipient: string; data: unknown }[]>`
    select recipient, data from mail_outbox where template = 'new-device' order by created_at`;

test("a login on an unknown device sends a mail, but not the first one ever, nor one on a known device", async () => {
  const from = { user: anna, clientIp: "203.0.113.7", userAgent: "curl/8", deviceToken: "" };
  const deviceToken = await rememberDevice(deps, from);
  const again = await rememberDevice(deps, { ...from, deviceToken });
  expect(deps.deviceTokens.read(again)).toEqual(deps.deviceTokens.read(deviceToken));
  expect(await mails()).toEqual([]);
  await rememberDevice(deps, from);
  const data = { occurredAt: "2031-01-02T03:04:05.678Z", ip: "203.0.113.7", browser: "curl" };
  expect(await mails()).toEqual([{ recipient: EMAIL, data }]);
  expect(deps.wakeMailWorker).toHaveBeenCalled();
});

test("a client that keeps no cookies causes one mail for each browser and network, not one a login", async () => {
  const from = { user: anna, clientIp: "203.0.113.7", userAgent: "curl/8", deviceToken: "" };
  for (let round = 0; round < 5; round += 1) await rememberDevice(deps, from);
  expect(await mails()).toHaveLength(1);
  await rememberDevice(deps, { ...from, clientIp: "203.0.113.8" });
  await rememberDevice(deps, { ...from, userAgent: "Firefox/1" });
  expect(await mails()).toHaveLength(3);
});

test("two first logins at once are one first login", async () => {
  // An address that was never proven has a budget of notices.
  await database.ownerSql`update users set email_verified = true`;
  const from = { user: anna, clientIp: "203.0.113.7", userAgent: "curl/8", deviceToken: "" };
  await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      rememberDevice(deps, { ...from, clientIp: `203.0.113.${index}` }),
    ),
  );
  expect(await mails()).toHaveLength(7);
});

test("an address that is not proven keeps its account out, and the right password still clears the failures before it", async () => {
  limitTo(100);
  const wrong = async (times: number) => {
    for (let time = 0; time < times; time += 1) {
      await expect(logIn({ password: "wrong" })).rejects.toMatchObject({ code: "invalid_credentials" });
    }
  };
  await wrong(4);
  deps.loginRequiresVerifiedEmail = true;
  await expect(logIn()).rejects.toMatchObject({ code: "email_not_verified" });
  deps.loginRequiresVerifiedEmail = false;
  await wrong(4);
  await expect(logIn()).resolves.toHaveProperty("tokens");
});

test("an address counts as one account, however it is typed", async () => {
  limitTo(1_000);
  for (const email of ["ANNA.smith@example.com", "anna.SMITH@example.com", "Anna.Smith@EXAMPLE.com"]) {
    await fail(2, { email });
  }
  expect(await codeOf({})).toBe("invalid_credentials");
});

test("each refusal is noted with whose account it was for, why, and from where", async () => {
  limitTo(1_000);
  const unverified = { loginRequiresVerifiedEmail: true, registrationDiscloses: true };
  await codeOf({ email: "nobody@example.com" });
  await codeOf({ password: "wrong" });
  Object.assign(deps, unverified);
  await codeOf({});
  await database.ownerSql`update users set status = 'disabled'`;
  await codeOf({});
  const from = { clientIp: "192.0.2.1", userAgent: "Firefox/1 Windows" };
  const code = "invalid_credentials";
  expect(deps.noteFailedLogin.mock.calls.map(([failed]) => failed)).toEqual([
    { userId: undefined, reason: "unknown_account", code, ...from },
    { userId: anna.id, reason: "wrong_password", code, ...from },
    { userId: anna.id, reason: "email_not_verified", code: "email_not_verified", ...from },
    { userId: anna.id, reason: "account_disabled", code, ...from },
  ]);
});

test("of a locked account the work is that of any other address, and its own hash is not looked at", async () => {
  limitTo(1_000);
  await fail(5);
  const { verify } = deps.passwords;
  const asked: unknown[] = [];
  deps.passwords.verify = async (account, password, deadlineMs, how) => {
    asked.push(how);
    return verify(account, password, deadlineMs, how);
  };
  expect(await codeOf({})).toBe("invalid_credentials");
  expect(asked).toEqual([{ address: EMAIL, neverMatches: true }]);
});

test("a known device or own network counts as known in the hash share, and the throttle gets which it is", async () => {
  const standings: unknown[] = [];
  const take = deps.throttle.take.bind(deps.throttle);
  deps.throttle.take = async (guess) => {
    standings.push([guess.deviceId, guess.standing]);
    return take(guess);
  };
  const { run } = deps.hashShare;
  const known: boolean[] = [];
  deps.hashShare = {
    run: (who, work) => {
      known.push(who.isKnown === true);
      return run(who, work);
    },
  };
  await logIn({ clientIp: "203.0.113.7" });
  const origin = { user: anna, clientIp: "203.0.113.7", userAgent: "", deviceToken: "" };
  const deviceToken = await rememberDevice(deps, origin);
  await logIn({ clientIp: "203.0.113.7" });
  await logIn({ clientIp: "203.0.113.7", deviceToken });
  await codeOf({ clientIp: "203.0.113.7", email: "nobody@example.com" });
  expect(standings).toEqual([
    [undefined, undefined],
    [undefined, "own_network"],
    [deps.deviceTokens.read(deviceToken)?.id, undefined],
    [undefined, "used_network"],
  ]);
  expect(known).toEqual([false, true, true, false]);
});

describe("right logins of one account", () => {
  const limitLogins = (logins: number) => {
    const limits = throttleLimits({ network: 1_000, everything: 1_000, logins });
    deps.throttle = new MemoryThrottle({ limits, now: () => nowMs });
  };
  const home = { clientIp: "203.0.113.7" };

  test("beyond the budget of their place they are refused before a session begins, with the time to wait", async () => {
    limitLogins(3);
    for (let time = 0; time < 3; time += 1) expect(await codeOf({})).toBe("in");
    deps.tokenService.issueSession.mockClear();
    await expect(logIn()).rejects.toMatchObject({
      code: "too_many_requests",
      retryAfterMs: 1_200_000,
      limit: 3,
    });
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
    expect(await codeOf({ password: "wrong" })).toBe("invalid_credentials");
    nowMs += 1_200_000;
    expect(await codeOf({})).toBe("in");
  });

  test("a thief of the password keeps the owner neither from a known device nor from a network of the account", async () => {
    limitLogins(2);
    const result = await logIn(home);
    const deviceToken = result.kind === "completed" ? result.deviceToken : "";
    const thief: string[] = [];
    for (let index = 0; index < 12; index += 1) thief.push(await codeOf({ clientIp: `192.0.2.${index}` }));
    expect(thief.slice(7)).toEqual(Array.from({ length: 5 }, () => "too_many_requests"));
    expect(await codeOf({ clientIp: "198.51.100.1", deviceToken })).toBe("in");
    expect(await codeOf(home)).toBe("in");
    expect(await codeOf({ clientIp: "198.51.100.2" })).toBe("too_many_requests");
  });

  test("a login that the budget refuses is no wrong password", async () => {
    limitLogins(1);
    expect(await codeOf({})).toBe("in");
    for (let time = 0; time < 10; time += 1) expect(await codeOf({})).toBe("too_many_requests");
    nowMs += 3_600_000;
    expect(await codeOf({})).toBe("in");
  });
});
