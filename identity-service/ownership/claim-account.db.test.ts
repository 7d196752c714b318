import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { ANNA, proveCredentials, soon, startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { lockAccount } from "../users/account-store.ts";
import { claimAccount } from "./claim-account.ts";
import { evictCredentials } from "./evict-credentials.ts";

/** Whatever lets somebody in, or will: each with how many are left when it is evicted. */
const WAYS_IN = {
  totp_credentials: "select count(*)::int as n from totp_credentials",
  recovery_codes: "select count(*)::int as n from recovery_codes",
  mfa_challenges: "select count(*)::int as n from mfa_challenges",
  password_change_challenges: "select count(*)::int as n from password_change_challenges",
  external_identities: "select count(*)::int as n from external_identities",
  oauth_flows: "select count(*)::int as n from oauth_flows",
  oauth_codes: "select count(*)::int as n from oauth_codes",
  links: "select count(*)::int as n from links where consumed_at is null",
  passwords: "select count(*)::int as n from users where password_hash is not null",
  proofs: "select count(*)::int as n from users where credentials_proven_email is not null",
};

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
const bytes = (count: number) => Buffer.alloc(count, 7);
const at = (minutes: number) => new Date(deps.now().getTime() + minutes * 60_000);

/** One of everything that opens the account, or will when somebody goes on with it. */
async function withEveryWayIn(): Promise<void> {
  const { ownerSql: sql } = database;
  const [now, end] = [at(0), at(10)];
  await proveCredentials(sql, userId);
  await sql`insert into totp_credentials (user_id, secret_encrypted, key_id, created_at, confirmed_at)
    values (${userId}, ${bytes(48)}, ${"a".repeat(16)}, ${now}, ${now})`;
  await sql`insert into recovery_codes (user_id, code_hash, created_at) values (${userId}, ${bytes(32)}, ${now})`;
  await sql`insert into mfa_challenges (token_hash, user_id, created_at, expires_at, session_epoch, ip, user_agent)
    values (${bytes(32)}, ${userId}, ${now}, ${end}, 0, '', '')`;
  await sql`insert into password_change_challenges (token_hash, user_id, session_epoch, amr, created_at, expires_at)
    values (${bytes(32)}, ${userId}, 0, ${["pwd"]}, ${now}, ${end})`;
  await sql`insert into external_identities (issuer, subject, user_id, provider, linked_at)
    values ('https://a.example', '1', ${userId}, 'one', ${now}), ('https://b.example', '1', ${userId}, 'two', ${now})`;
  await sql`insert into oauth_flows (state_hash, browser_hash, provider, return_to, link_user_id, link_session_epoch,
      created_at, expires_at)
    values (${bytes(32)}, ${bytes(32)}, 'one', 'https://a.example', ${userId}, 0, ${now}, ${end})`;
  await sql`insert into oauth_codes (code_hash, code_challenge, user_id, session_epoch, auth_time, expires_at)
    values (${bytes(32)}, ${"a".repeat(43)}, ${userId}, 0, ${now}, ${end})`;
  for (const [index, purpose] of ["reset_password", "confirm_email_change", "undo_email_change"].entries()) {
    const newEmail = purpose === "reset_password" ? null : `${purpose}@example.com`;
    await sql`insert into links (id, token_hash, purpose, user_id, new_email, created_at, expires_at)
      values (${deps.newId()}, ${Buffer.alloc(32, index)}, ${purpose}, ${userId}, ${newEmail}, ${now}, ${end})`;
  }
}

async function waysIn(): Promise<Record<string, number>> {
  const counts = Object.entries(WAYS_IN).map(async ([name, query]) => {
    const [row] = await database.ownerSql.unsafe(query);
    return [name, row?.n] as const;
  });
  return Object.fromEntries(await Promise.all(counts));
}
const evict = (eviction: Partial<Parameters<typeof evictCredentials>[2]> = {}) =>
  transaction(database.sql, async (tx) => {
    const account = await lockAccount(tx, userId);
    if (account === undefined) throw new Error("no account");
    return evictCredentials(tx, deps, { account, reason: "tested", ...eviction }, context());
  });
const account = async () => (await database.ownerSql`select * from users`)[0];

test("an eviction leaves nothing that opens the account, and the account", async () => {
  await withEveryWayIn();
  const before = await account();
  expect(Object.values(await waysIn()).every((count) => count > 0)).toBe(true);
  expect(await evict()).toMatchObject({
    hadPassword: true,
    providers: ["one", "two"],
    hadSecondFactor: true,
  });
  expect(await waysIn()).toEqual(Object.fromEntries(Object.keys(WAYS_IN).map((name) => [name, 0])));
  const after = await account();
  expect(after).toMatchObject({ email: ANNA.email, role: "USER", status: "active" });
  // A login under way and a known device are over, too.
  expect(after?.session_epoch).toBe(before?.session_epoch + 1);
  expect(after?.password_epoch).toBe(before?.password_epoch + 1);
  expect(await database.ownerSql`select user_id, except_session_id, reason from session_ends`).toEqual([
    { user_id: userId, except_session_id: null, reason: "tested" },
  ]);
});

test("an eviction touches no other account", async () => {
  const other = await register(deps, { ...ANNA, email: "ben@example.com" }, soon());
  await evict();
  const [row] =
    await database.ownerSql`select password_hash, session_epoch from users where id = ${other.id}`;
  expect(row).toMatchObject({ password_hash: expect.any(String), session_epoch: 0 });
  expect(
    await database.ownerSql`select from links where user_id = ${other.id} and consumed_at is null`,
  ).toHaveLength(1);
});

test("the identity that was just used and the undo link of an earlier address stay", async () => {
  await withEveryWayIn();
  const keptIdentity = { issuer: "https://b.example", subject: "1" };
  expect(await evict({ keptIdentity, undoLinksFrom: at(1) })).toMatchObject({ providers: ["one"] });
  expect(await database.ownerSql`select provider from external_identities`).toEqual([{ provider: "two" }]);
  expect(await database.ownerSql`select purpose from links where consumed_at is null`).toEqual([
    { purpose: "undo_email_change" },
  ]);
});

test("a claim sends one mail that lists what was removed, and records an event for the claim and each removal", async () => {
  await withEveryWayIn();
  await emptyTables(database.ownerSql, "mail_outbox", "security_events");
  await transaction(database.sql, async (tx) => {
    const locked = await lockAccount(tx, userId);
    if (locked === undefined) throw new Error("no account");
    const claim = { by: "password_reset", clientIp: "192.0.2.1", userAgent: "test" } as const;
    await claimAccount(tx, deps, { account: locked, ...claim }, context());
  });
  expect(await database.ownerSql`select template, recipient, data from mail_outbox`).toEqual([
    {
      template: "account-claimed",
      recipient: ANNA.email,
      data: {
        occurredAt: "2031-01-02T03:04:05.678Z",
        claim: [{ phrase: "claimed-by-reset" }],
        removed: [
          { phrase: "earlier-password" },
          { phrase: "provider-login", values: { provider: "one" } },
          { phrase: "provider-login", values: { provider: "two" } },
          { phrase: "second-factor" },
        ],
      },
    },
  ]);
  expect(await database.ownerSql`select type, reason, ip from security_events order by id`).toEqual([
    { type: "identity_unlinked", reason: "one", ip: "" },
    { type: "identity_unlinked", reason: "two", ip: "" },
    { type: "mfa_disabled", reason: "", ip: "" },
    { type: "account_claimed", reason: "password_reset", ip: "192.0.2.1" },
  ]);
});

test("credentials are proven with the address that the account has, and with no other", async () => {
  await proveCredentials(database.ownerSql, userId);
  const proof = () =>
    transaction(database.sql, async (tx) => (await lockAccount(tx, userId))?.credentialsProvenAt);
  expect(await proof()).toEqual(at(0));
  // As a version does that knows nothing of the proof.
  await database.ownerSql`update users set email = 'other@example.com'`;
  expect(await proof()).toBeNull();
});
