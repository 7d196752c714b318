import judge from "argon2";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { toRpcError } from "#kit/rpc/rpc-errors.ts";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { soon, testDeps } from "../testing/test-deps.ts";
import type { NewAccount } from "../users/account.ts";
import { logIn as logInWith } from "./log-in.ts";

const EMAIL = "anna.smith@example.com";
const PASSWORD = "Password123!";
/** Asks for 4 GiB. */
const CORRUPT = `$argon2id$v=19$m=4194304,t=2,p=1$${"A".repeat(22)}$${"A".repeat(43)}`;
const FROM = { clientIp: "192.0.2.1", userAgent: "curl/8" };
/** Where a login comes from: on a device that is not known. */
const NEW_DEVICE = { ...FROM, deviceToken: "" };

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
let anna: NewAccount;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "users", "counted_mails");
  deps = await testDeps(database.sql);
  const registration = { email: EMAIL, password: PASSWORD, firstName: "Anna", lastName: "Smith" };
  anna = await register(deps, registration, soon());
  deps.argon2.hash.mockClear();
});
afterAll(() => database.drop());

const context = () => newCallContext({ budgetMs: 60_000 });
async function logIn(email = EMAIL, password = PASSWORD, withDeps = deps) {
  const result = await logInWith(withDeps, { email, password, ...NEW_DEVICE }, context());
  if (result.kind !== "completed") throw new Error("asked for more");
  return result;
}

async function storedHash(): Promise<string> {
  const [row] = await database.ownerSql<{ hash: string }[]>`select password_hash as hash from users`;
  return row?.hash ?? "";
}

const plant = (hash: string | null) => database.ownerSql`update users set password_hash = ${hash}`;

const NO_LIMITS = { idleS: undefined, absoluteS: undefined, atMost: undefined };

test("the right password begins a session by password, for this user from this client, now", async () => {
  const { tokens, user } = await logIn();
  expect(user).toMatchObject(anna);
  expect(tokens).toMatchObject({ accessToken: "access", userId: anna.id });
  expect(deps.tokenService.issueSession.mock.calls.map(([session]) => session)).toEqual([
    {
      userId: anna.id,
      role: "USER",
      amr: ["pwd"],
      acr: 1,
      limits: NO_LIMITS,
      authTime: deps.now(),
      ...FROM,
    },
  ]);
});

test("the last login is when the last session began: not that of a refused login, nor of one that sessions ended under", async () => {
  const lastLogin = async () =>
    (await database.ownerSql<{ at: Date | null }[]>`select last_login_at as at from users`)[0]?.at;
  const at = (ms: number) => ({ ...deps, now: () => new Date(deps.now().getTime() + ms) });
  await expect(logIn(EMAIL, "Password123?")).rejects.toThrow();
  expect(await lastLogin()).toBeNull();
  await logIn(EMAIL, PASSWORD, at(1_000));
  expect(await lastLogin()).toEqual(at(1_000).now());
  await logIn(EMAIL, PASSWORD, at(2_000));
  expect(await lastLogin()).toEqual(at(2_000).now());
  const { issueSession } = deps.tokenService;
  const issue = issueSession.getMockImplementation();
  issueSession.mockImplementationOnce(async (session) => {
    await database.ownerSql`update users set session_epoch = session_epoch + 1`;
    if (issue === undefined) throw new Error("issueSession is no mock");
    return issue(session);
  });
  await expect(logIn(EMAIL, PASSWORD, at(3_000))).rejects.toMatchObject({ code: "invalid_credentials" });
  expect(await lastLogin()).toEqual(at(2_000).now());
});

test("the address may be typed in another spelling", async () => {
  expect((await logIn("Anna.SMITH@EXAMPLE.com")).user.id).toBe(anna.id);
});

const REFUSED: [string, () => Promise<unknown>, string, string][] = [
  ["a wrong password", async () => undefined, EMAIL, "Password123?"],
  ["an empty password", async () => undefined, EMAIL, ""],
  ["a password of 10,000 characters", async () => undefined, EMAIL, PASSWORD.repeat(834)],
  ["an unknown address", async () => undefined, "eve@example.com", PASSWORD],
  ["something that is no address", async () => undefined, "anna smith", PASSWORD],
  ["an empty address", async () => undefined, "", PASSWORD],
  ["a disabled account", () => database.ownerSql`update users set status = 'disabled'`, EMAIL, PASSWORD],
  ["an account without a password", () => plant(null), EMAIL, PASSWORD],
  ["a corrupt hash", () => plant(CORRUPT), EMAIL, PASSWORD],
];

test.each(REFUSED)(
  "%s costs exactly one verification of equal cost and begins no session",
  async (...row) => {
    const [_what, prepare, email, password] = row;
    await prepare();
    await expect(logIn(email, password)).rejects.toMatchObject({ code: "invalid_credentials" });
    expect(deps.argon2.verify).toHaveBeenCalledTimes(1);
    expect(deps.argon2.verify.mock.calls[0]?.[0]).toMatch(/^\$argon2id\$v=19\$m=256,t=1,p=1\$/);
    expect(deps.argon2.hash).not.toHaveBeenCalled();
    expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  },
);

test("every refusal is the same bytes on the wire", async () => {
  const answers = new Set<string>();
  for (const [_what, prepare, email, password] of REFUSED) {
    await prepare();
    // Those of one network at one address are counted.
    ({ throttle: deps.throttle } = await testDeps(database.sql));
    const error = await logIn(email, password).catch((refusal: unknown) => refusal);
    const { code, details, metadata } = toRpcError(error);
    answers.add(JSON.stringify([code, details, metadata?.toJSON()]));
  }
  expect(answers.size).toBe(1);
});

test("a right password costs one verification and no hash", async () => {
  await logIn();
  expect(deps.argon2.verify).toHaveBeenCalledTimes(1);
  expect(deps.argon2.hash).not.toHaveBeenCalled();
});

test("raised parameters renew the hash at the next login, once, and the password stays", async () => {
  const before = await storedHash();
  const raised = await testDeps(database.sql, { memoryKib: 512, iterations: 2, parallelism: 1 });
  await logIn(EMAIL, PASSWORD, raised);
  const after = await storedHash();
  expect(before).toContain("m=256,t=1,p=1");
  expect(after).toContain("m=512,t=2,p=1");
  expect(await judge.verify(after, PASSWORD)).toBe(true);

  await logIn(EMAIL, PASSWORD, raised);
  expect(await storedHash()).toBe(after);
  expect(raised.argon2.hash).toHaveBeenCalledTimes(1);
});

test("a wrong password renews nothing", async () => {
  const before = await storedHash();
  const raised = await testDeps(database.sql, { memoryKib: 512, iterations: 2, parallelism: 1 });
  await expect(logIn(EMAIL, "wrong", raised)).rejects.toMatchObject({ code: "invalid_credentials" });
  expect(await storedHash()).toBe(before);
});

test("a password that was changed while the login ran is not brought back by renewing the old hash", async () => {
  const raised = await testDeps(database.sql, { memoryKib: 512, iterations: 2, parallelism: 1 });
  const changed = await judge.hash("a new password", { memoryCost: 20_480, timeCost: 3, parallelism: 1 });
  const { hash } = raised.passwords;
  raised.passwords.hash = async (...args) => {
    await plant(changed);
    return hash(...args);
  };
  await logIn(EMAIL, PASSWORD, raised);
  expect(await storedHash()).toBe(changed);
});

test("a login succeeds although its hash could not be renewed", async () => {
  const raised = await testDeps(database.sql, { memoryKib: 512, iterations: 2, parallelism: 1 });
  raised.passwords.hash = () => Promise.reject(new DomainError("busy"));
  expect((await logIn(EMAIL, PASSWORD, raised)).user.id).toBe(anna.id);
  expect(raised.logLines.join()).toContain("password hash not renewed");
});

test("while token-service is away, a right password gets service_unavailable and a wrong one is still refused", async () => {
  deps.tokenService.issueSession.mockRejectedValue(new DomainError("service_unavailable"));
  await expect(logIn()).rejects.toMatchObject({ code: "service_unavailable" });
  await expect(logIn(EMAIL, "wrong")).rejects.toMatchObject({ code: "invalid_credentials" });
});

test("a user whose role is not in the access file keeps the account and begins no session", async () => {
  await database.ownerSql`update users set role = 'OWNER'`;
  await expect(logIn()).rejects.toMatchObject({ code: "role_not_defined" });
  expect(deps.tokenService.issueSession).not.toHaveBeenCalled();
  await expect(logIn(EMAIL, "Password123?")).rejects.toMatchObject({ code: "invalid_credentials" });
});

test("a session has the limits of its user's role", async () => {
  await database.ownerSql`update users set role = 'ADMIN'`;
  await logIn();
  const [session] = deps.tokenService.issueSession.mock.calls.at(-1) ?? [];
  expect(session?.limits).toEqual({ idleS: 900, absoluteS: 28_800, atMost: 3 });
});

test("no log line holds the password or a hash", async () => {
  await plant(CORRUPT);
  await logIn().catch(() => undefined);
  expect(deps.logLines).toHaveLength(1);
  expect(deps.logLines.join()).not.toContain(PASSWORD);
  expect(deps.logLines.join()).not.toContain("argon2id");
});

test("if verification is required, an unverified address is refused even with the right password", async () => {
  const strict = { ...deps, loginRequiresVerifiedEmail: true };
  await expect(logIn(EMAIL, "not the password", strict)).rejects.toMatchObject({
    code: "invalid_credentials",
  });
  await expect(logIn(EMAIL, PASSWORD, strict)).rejects.toMatchObject({ code: "email_not_verified" });
  await database.ownerSql`update users set email_verified = true`;
  expect(await logIn(EMAIL, PASSWORD, strict)).toMatchObject({ user: { emailVerified: true } });
});

test("what a verification costs depends on the address alone: canonical, or as it was typed if it is none", async () => {
  const asked: unknown[] = [];
  const { verify } = deps.passwords;
  deps.passwords.verify = async (account, password, deadlineMs, how) => {
    asked.push(how);
    return verify(account, password, deadlineMs, how);
  };
  await logIn("Anna.SMITH@EXAMPLE.com");
  await logIn("Eve@Example.COM").catch(() => undefined);
  await logIn("Anna Smith").catch(() => undefined);
  const addresses = [EMAIL, "eve@example.com", "Anna Smith"];
  expect(asked).toEqual(addresses.map((address) => ({ address, neverMatches: false })));
});
