import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { newCallContext } from "#kit/rpc/call-context.ts";
import type { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { logIn } from "../login/log-in.ts";
import { rememberDevice } from "../login/remember-device.ts";
import { soon, testDeps } from "../testing/test-deps.ts";
import type { Account } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { forgetOldNetworks, networkStanding } from "./known-caller.ts";
import { MemoryThrottle } from "./memory-throttle.ts";
import { spendOrRefuse } from "./spend-call.ts";
import { throttleLimits } from "./throttle.ts";

const ADA = "ada@example.com";
const BEN = "ben@example.com";
const PASSWORD = "Password123!";
const HOME = "203.0.113.7";

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
let ada: Account;

beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "users", "counted_mails", "mail_outbox");
  deps = await testDeps(database.sql);
  ada = await user(ADA);
});
afterAll(() => database.drop());

async function user(email: string): Promise<Account> {
  await register(deps, { email, password: PASSWORD, firstName: "A", lastName: "B" }, soon());
  const [row] = await database.ownerSql<{ id: string }[]>`select id from users where email = ${email}`;
  const found = await findAccountById(database.sql, row?.id ?? "");
  if (found === undefined) throw new Error("not registered");
  return found;
}
const comeIn = (who: Account, clientIp: string, deviceToken = "") =>
  rememberDevice(deps, { user: who, clientIp, userAgent: "", deviceToken });
const standing = (email: string, clientIp: string) => networkStanding(deps, email, clientIp);
const codeOf = (email: string, clientIp: string, password = PASSWORD) =>
  logIn(
    deps,
    { email, password, clientIp, userAgent: "", deviceToken: "" },
    newCallContext({ budgetMs: 60_000 }),
  ).then(
    () => "in",
    (error: DomainError) => error.code,
  );

test("a network is the account's own after a login from it, and known to others as one that is in use", async () => {
  expect(await standing(ADA, HOME)).toBeUndefined();
  await comeIn(ada, HOME);
  expect(await standing(ADA, HOME)).toBe("own_network");
  expect(await standing(BEN, HOME)).toBe("used_network");
  expect(await standing(ADA, "203.0.113.8")).toBeUndefined();
});

test("of IPv6 it is the /64 that is known", async () => {
  await comeIn(ada, "2001:db8:0:7::1");
  expect(await standing(ADA, "2001:db8:0:7::abcd")).toBe("own_network");
  expect(await standing(ADA, "2001:db8:0:8::1")).toBeUndefined();
});

test("a login on a known device makes its network known as well", async () => {
  const token = await comeIn(ada, HOME);
  await comeIn(ada, "198.51.100.1", token);
  expect(await standing(ADA, "198.51.100.1")).toBe("own_network");
});

test("an invalid address belongs to no network", async () => {
  for (const clientIp of ["", "unknown"]) {
    await comeIn(ada, clientIp);
    expect(await standing(ADA, clientIp)).toBeUndefined();
  }
});

test("after 30 days without a login a network is unknown, and deleted", async () => {
  await comeIn(ada, HOME);
  await comeIn(ada, "198.51.100.1");
  const age = (days: number) => database.ownerSql`
    update known_networks set seen_at = now() - make_interval(days => ${days})
    where digest = ${deps.digestNetwork(ADA, HOME)?.digest ?? ""}`;
  await age(29);
  expect(await standing(ADA, HOME)).toBe("own_network");
  await age(30);
  expect(await standing(ADA, HOME)).toBeUndefined();
  await forgetOldNetworks(deps);
  const [left] = await database.ownerSql`select count(*)::int as count from known_networks`;
  expect(left?.count).toBe(1);
  await age(31);
  await comeIn(ada, HOME);
  expect(await standing(ADA, HOME)).toBe("own_network");
});

test("with a new password no network is the account's own any more", async () => {
  await comeIn(ada, HOME);
  await database.ownerSql`update users set password_epoch = password_epoch + 1`;
  expect(await standing(ADA, HOME)).toBe("used_network");
  await comeIn(ada, HOME);
  expect(await standing(ADA, HOME)).toBe("used_network");
  await comeIn({ ...ada, passwordEpoch: ada.passwordEpoch + 1 }, HOME);
  expect(await standing(ADA, HOME)).toBe("own_network");
});

test("the 20 latest networks of an account are remembered", async () => {
  for (let index = 0; index < 25; index += 1) await comeIn(ada, `198.51.100.${index}`);
  const [row] = await database.ownerSql`select count(*)::int as count from known_networks`;
  expect(row?.count).toBe(20);
  expect(await standing(ADA, "198.51.100.24")).toBe("own_network");
  expect(await standing(ADA, "198.51.100.0")).toBeUndefined();
});

test("many logins at once from one network are one row, and write once a day", async () => {
  await Promise.all(Array.from({ length: 10 }, () => comeIn(ada, HOME)));
  const seen = () => database.ownerSql`select seen_at, xmin::text from known_networks`;
  const before = await seen();
  expect(before).toHaveLength(1);
  await comeIn(ada, HOME);
  expect(await seen()).toEqual(before);
});

test("with an account its networks go", async () => {
  await comeIn(ada, HOME);
  await database.ownerSql`delete from users`;
  expect(await database.ownerSql`select from known_networks`).toHaveLength(0);
});

test("an owner without cookies gets in from home while strangers hammer; elsewhere not", async () => {
  deps.throttle = new MemoryThrottle({
    limits: throttleLimits({ network: 100, everything: 300 }),
    now: () => deps.now().getTime(),
  });
  await comeIn(ada, HOME);
  for (let index = 0; index < 10; index += 1) await codeOf(ADA, `192.0.2.${index}`, "wrong");
  expect(await codeOf(ADA, "198.51.100.1")).toBe("invalid_credentials");
  expect(await codeOf(ADA, HOME)).toBe("in");
});

test("when strangers have used up the shared budget, networks with recent logins are still admitted", async () => {
  deps.throttle = new MemoryThrottle({
    limits: throttleLimits({ network: 100, everything: 5 }),
    now: () => deps.now().getTime(),
  });
  await user(BEN);
  await comeIn(ada, HOME);
  for (let index = 0; index < 10; index += 1) await codeOf(`user${index}@example.com`, `192.0.2.${index}`);
  expect(await codeOf(BEN, "198.51.100.1")).toBe("too_many_requests");
  expect(await codeOf(BEN, HOME)).toBe("in");
  expect(await codeOf(ADA, HOME)).toBe("in");
});

test("when strangers have used up all calls of a kind, networks in use have a reserve, which is not endless", async () => {
  const limits = throttleLimits({ network: 100, everything: 100, callsOfNetwork: 10, calls: 5 });
  deps.throttle = new MemoryThrottle({ limits, now: () => deps.now().getTime() });
  await comeIn(ada, HOME);
  const spend = (clientIp: string) =>
    spendOrRefuse(deps, { kind: "register", clientIp }).then(
      () => "in",
      (error: DomainError) => error.code,
    );
  for (let index = 0; index < 5; index += 1) expect(await spend(`192.0.2.${index}`)).toBe("in");
  expect(await spend("198.51.100.1")).toBe("too_many_requests");
  for (let index = 0; index < 5; index += 1) expect(await spend(HOME)).toBe("in");
  expect(await spend(HOME)).toBe("too_many_requests");
});
