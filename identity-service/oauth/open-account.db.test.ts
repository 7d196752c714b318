import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { findIdentityUser, insertIdentity } from "../identities/external-identity-store.ts";
import { proveCredentials, soon, testDeps } from "../testing/test-deps.ts";
import { lockAccount } from "../users/account-store.ts";
import { openAccount } from "./open-account.ts";

const ISSUER = "https://provider.example";

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(
    database.ownerSql,
    "users",
    "counted_mails",
    "mail_outbox",
    "session_ends",
    "security_events",
  );
  deps = await testDeps(database.sql);
});
afterAll(() => database.drop());

const signUp = async (email: string) => {
  const person = { email, password: "Password123!", firstName: "A", lastName: "B" };
  return (await register(deps, person, soon())).id;
};
const logIn = (subject: string, email: string, isEmailVerified = true, locale?: string, language = "") => {
  const party = { name: "demo", displayName: "Demo", issuer: ISSUER };
  const person = { subject, email, isEmailVerified, firstName: "A", lastName: "B", language: locale };
  const arrival = { party, person, language, clientIp: "192.0.2.1", userAgent: "test" };
  return openAccount(deps, arrival, newCallContext({ budgetMs: 60_000 }));
};

const EMAIL = "ada@example.com";
const link = (userId: string, subject: string, provider = "demo", issuer = ISSUER) =>
  transaction(database.ownerSql, (tx) =>
    insertIdentity(tx, { issuer, subject, userId, provider, email: null, linkedAt: deps.now() }),
  );
const account = async (id: string) => {
  const [row] = await database.ownerSql`
    select password_hash is not null as "hasPassword", credentials_proven_email as proof, email_verified as verified
    from users where id = ${id}`;
  return row;
};
const recorded = () =>
  database.ownerSql`
    select type, reason, actor_id, ip, user_agent from security_events where actor_id is not null order by id`;
const byOwner = (id: string) => ({ actor_id: id, ip: "192.0.2.1", user_agent: "test" });
const CLAIMED = { hasPassword: false, proof: EMAIL, verified: true };
const UNTOUCHED = { hasPassword: true, proof: null, verified: false };

test("a first login makes a proven account where the provider has checked the address, else an unproven one", async () => {
  const { account: checked, end } = await logIn("checked", EMAIL);
  expect(checked).toMatchObject({ email: EMAIL, role: "USER", emailVerified: true, mfaEnabled: false });
  expect(end).toBeUndefined();
  expect(await account(checked.id)).toEqual(CLAIMED);
  expect(await recorded()).toEqual([
    { type: "user_registered", reason: "demo", ...byOwner(checked.id) },
    { type: "identity_linked", reason: "demo", ...byOwner(checked.id) },
  ]);
  expect(
    await database.ownerSql`select issuer, subject, provider, email, linked_at from external_identities`,
  ).toEqual([{ issuer: ISSUER, subject: "checked", provider: "demo", email: EMAIL, linked_at: deps.now() }]);
  const { account: unchecked } = await logIn("unchecked", "other@example.com", false);
  expect(await account(unchecked.id)).toEqual({ hasPassword: false, proof: null, verified: false });
});

test("an unproven account is claimed by the first login with its address, and its sessions are to end", async () => {
  const id = await signUp(EMAIL);
  const { account: opened, end } = await logIn("ada", EMAIL);
  expect(opened.id).toBe(id);
  expect(end).toMatchObject({ userId: id, reason: "provider_claim" });
  expect(await account(id)).toEqual(CLAIMED);
  expect(await recorded()).toEqual([
    { type: "account_claimed", reason: "provider_claim: demo", ...byOwner(id) },
    { type: "identity_linked", reason: "demo", ...byOwner(id) },
  ]);
});

test("a proven account is linked, keeps its password, and its sessions go on", async () => {
  const id = await signUp(EMAIL);
  await proveCredentials(database.ownerSql, id);
  expect((await logIn("ada", EMAIL)).end).toBeUndefined();
  expect(await account(id)).toEqual({ ...CLAIMED, hasPassword: true });
  expect(await recorded()).toMatchObject([{ type: "identity_linked", reason: "demo", ...byOwner(id) }]);
});

test("an unproven account that is linked already is claimed by the first login whose address is checked; that login stays", async () => {
  const id = await signUp(EMAIL);
  await link(id, "ada");
  await link(id, "thief", "other", "https://other.example");
  expect((await logIn("ada", EMAIL, false)).end).toBeUndefined();
  expect((await logIn("ada", "else@example.com")).end).toBeUndefined();
  expect(await account(id)).toEqual(UNTOUCHED);
  expect((await logIn("ada", EMAIL)).end).toMatchObject({ userId: id });
  expect(await account(id)).toEqual(CLAIMED);
  expect(await findIdentityUser(database.sql, { issuer: ISSUER, subject: "ada" })).toBe(id);
  expect(
    await findIdentityUser(database.sql, { issuer: "https://other.example", subject: "thief" }),
  ).toBeUndefined();
  expect((await logIn("ada", EMAIL)).end).toBeUndefined();
});

test("an account with a privileged role is neither linked nor claimed by its address", async () => {
  const id = await signUp(EMAIL);
  await database.ownerSql`update users set role = 'AUDITOR'`;
  await expect(logIn("ada", EMAIL)).rejects.toMatchObject({ code: "link_required" });
  await link(id, "ada");
  expect((await logIn("ada", EMAIL)).end).toBeUndefined();
  expect(await account(id)).toEqual(UNTOUCHED);
});

test("a disabled account is neither linked nor claimed", async () => {
  const id = await signUp(EMAIL);
  await database.ownerSql`update users set status = 'disabled'`;
  await expect(logIn("ada", EMAIL)).rejects.toMatchObject({ code: "oauth_failed" });
  expect(await findIdentityUser(database.sql, { issuer: ISSUER, subject: "ada" })).toBeUndefined();
  await link(id, "ada");
  await expect(logIn("ada", EMAIL)).rejects.toMatchObject({ code: "oauth_failed" });
  expect(await account(id)).toEqual(UNTOUCHED);
});

test("an account with another identity of that provider gets no second one by its address", async () => {
  const id = await signUp(EMAIL);
  await proveCredentials(database.ownerSql, id);
  await link(id, "first");
  await expect(logIn("second", EMAIL)).rejects.toMatchObject({ code: "link_required" });
});

test("two logins whose accounts are linked and change their addresses meanwhile do not wait for each other", async () => {
  const left = "left@example.com";
  const right = "right@example.com";
  const [first, second] = [await signUp(left), await signUp(right)];
  const link = { provider: "demo", issuer: ISSUER, email: null, linkedAt: deps.now() };

  // Each login has found an account by its address and waits for its lock. Then its identity is linked to the other account.
  const logins = await transaction(database.ownerSql, async (tx) => {
    await lockAccount(tx, first);
    await lockAccount(tx, second);
    const waiting = Promise.allSettled([logIn("left", left), logIn("right", right)]);
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBe(2);
    await tx`update users set email = 'none@example.com' where id = ${first}`;
    await tx`update users set email = ${left} where id = ${second}`;
    await tx`update users set email = ${right} where id = ${first}`;
    await insertIdentity(tx, { ...link, subject: "left", userId: second });
    await insertIdentity(tx, { ...link, subject: "right", userId: first });
    return { waiting };
  });

  expect(await logins.waiting).toMatchObject([
    { status: "fulfilled", value: { account: { id: second, email: left } } },
    { status: "fulfilled", value: { account: { id: first, email: right } } },
  ]);
});

test("without disclosure, an address that the provider has not verified opens no account", async () => {
  deps.registrationDiscloses = false;
  const id = await signUp(EMAIL);
  for (const email of [EMAIL, "nobody@example.com"]) {
    await expect(logIn("ada", email, false)).rejects.toMatchObject({ code: "email_not_verified" });
  }
  expect(await database.ownerSql`select id from users`).toEqual([{ id }]);
  expect(await account(id)).toEqual(UNTOUCHED);
});

/** Begins a login, does the change once the login waits for the account's lock, and gives the login's end. */
async function whileLocked(id: string, change: (tx: TransactionSql) => Promise<unknown>) {
  const { login } = await transaction(database.ownerSql, async (tx) => {
    await lockAccount(tx, id);
    const login = Promise.allSettled([logIn("ada", EMAIL)]);
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBe(1);
    await change(tx);
    return { login };
  });
  const [ended] = await login;
  return ended;
}

test.each<[string, (tx: TransactionSql, id: string) => Promise<unknown>]>([
  ["gets another address", (tx, id) => tx`update users set email = 'new@example.com' where id = ${id}`],
  ["is deleted", (tx, id) => tx`delete from users where id = ${id}`],
])("an account that %s while a login with its address waits for it is not linked", async (_what, change) => {
  const id = await signUp(EMAIL);
  expect(await whileLocked(id, (tx) => change(tx, id))).toMatchObject({
    status: "rejected",
    reason: { code: "link_required" },
  });
  expect(await findIdentityUser(database.sql, { issuer: ISSUER, subject: "ada" })).toBeUndefined();
});

test("an identity that is unlinked while its login waits for the account claims nothing, and logs nobody in", async () => {
  const id = await signUp(EMAIL);
  await link(id, "ada");
  const ended = await whileLocked(id, (tx) => tx`delete from external_identities`);
  expect(ended).toMatchObject({ status: "rejected", reason: { code: "oauth_failed" } });
  expect(await account(id)).toEqual(UNTOUCHED);
});

test("an identity that is unlinked after its login has found it logs nobody in", async () => {
  const id = await signUp(EMAIL);
  await proveCredentials(database.ownerSql, id);
  await link(id, "ada");
  const { login } = await transaction(database.ownerSql, async (tx) => {
    await tx`lock table users in access exclusive mode`;
    const login = Promise.allSettled([logIn("ada", "else@example.com")]);
    await expect.poll(database.waitingForLocks, { interval: 5 }).toBe(1);
    await tx`delete from external_identities`;
    await tx`update users set session_epoch = session_epoch + 1`;
    return { login };
  });
  expect(await login).toMatchObject([{ status: "rejected", reason: { code: "oauth_failed" } }]);
});

test("a login of a linked account that has nothing to claim waits for no lock", async () => {
  const id = await signUp(EMAIL);
  await proveCredentials(database.ownerSql, id);
  await link(id, "ada");
  const opened = await transaction(database.ownerSql, async (tx) => {
    await lockAccount(tx, id);
    return { account: await logIn("ada", EMAIL) };
  });
  expect(opened.account.end).toBeUndefined();
});
