import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, inject, test } from "vitest";
import { Secret } from "#kit/config/config.ts";
import { connectPostgres, transaction } from "#kit/database/postgres.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { register } from "../accounts/register.ts";
import { logIn as logInWith } from "../login/log-in.ts";
import type { RelyingParty } from "../oauth/relying-party.ts";
import { createSessionEndWorker } from "../sessions/session-end-worker.ts";
import { asOperator, soon, testDeps } from "../testing/test-deps.ts";
import type { Role } from "../users/account.ts";
import { lockActiveAdmins } from "../users/account-store.ts";
import { getAccount } from "../users/get-account.ts";
import { assertOtherAdmin } from "../users/last-admin.ts";
import { deleteUser } from "./delete-user.ts";
import { listUsers } from "./managed-users.ts";
import { resetUserMfa } from "./reset-user-mfa.ts";
import { setUserAccess } from "./set-user-access.ts";
import { countUsers } from "./user-admin-store.ts";

const IS_CITUS = inject("postgres").workers.length > 0;

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "users", "counted_mails", "session_ends", "mail_outbox");
  deps = await testDeps(database.sql);
});
afterAll(() => database.drop());

const context = asOperator;
const set = (changes: Partial<typeof deps>) => Object.assign(deps, changes);

const READABLE_HASH = `$argon2id$v=19$m=8192,t=1,p=1$${"A".repeat(22)}$${"A".repeat(43)}`;
/** Planted: what a password would cost has no part in it. */
async function plant(role: Role, index = 0, status = "active"): Promise<string> {
  const id = deps.newId();
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, password_hash, created_at, updated_at)
    values (${id}, ${`${role.toLowerCase()}${index}@example.com`}, 'Ada', ${`Nr ${index}`}, ${role}, ${status}, true, ${READABLE_HASH}, now(), now())`;
  return id;
}
const access = (userId: string, change: { role?: Role; status?: "active" | "disabled" }) =>
  setUserAccess(deps, { userId, ...change }, context());
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => "done",
    (error: DomainError) => error.code,
  );
const activeAdmins = async () =>
  (await database.ownerSql`select id from users where role = 'ADMIN' and status = 'active'`).map(
    ({ id }) => id,
  );

test("users come newest first, page by page, each once", async () => {
  const ids: string[] = [];
  for (let index = 0; index < 25; index += 1) ids.push(await plant("USER", index));
  const seen: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await listUsers(deps, { limit: 10, cursor });
    seen.push(...page.users.map(({ id }) => id));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  expect(seen).toEqual(ids.toReversed());
});

test("users are found by part of address or name, by role and by status", async () => {
  await plant("USER", 1);
  const auditor = await plant("AUDITOR", 2);
  const disabled = await plant("USER", 3, "disabled");
  const found = async (filter: Partial<Parameters<typeof listUsers>[1]>) =>
    (await listUsers(deps, { limit: 10, ...filter })).users.map(({ id }) => id);
  expect(await found({ query: "AUDITOR2@" })).toEqual([auditor]);
  expect(await found({ query: "ada nr 3" })).toEqual([disabled]);
  expect(await found({ query: "%%%" })).toEqual([]);
  expect(await found({ query: "' or true --" })).toEqual([]);
  expect(await found({ role: "AUDITOR" })).toEqual([auditor]);
  expect(await found({ status: "disabled" })).toEqual([disabled]);
  expect(await found({ status: "disabled", role: "ADMIN" })).toEqual([]);
  // Whoever has gone is left out.
  expect(await found({ ids: [auditor, disabled, randomUUID()] })).toEqual([disabled, auditor]);
  expect(await found({ ids: [auditor], status: "disabled" })).toEqual([]);
});

test("words stand in any order, and each has to fit", async () => {
  const plantNames = async (index: number, first: string, last: string) => {
    const id = await plant("USER", index);
    await database.ownerSql`update users set first_name = ${first}, last_name = ${last} where id = ${id}`;
    return id;
  };
  const [grace, zoe] = [
    await plantNames(1, "Grace Brewster Murray", "Hopper"),
    await plantNames(2, "Zo\u00eb", "M\u00fcller"),
  ];
  const found = async (query: string) =>
    (await listUsers(deps, { limit: 10, query })).users.map(({ id }) => id);
  for (const query of ["hopper grace", "hopper brewster", "h grace", "example.com HOP", "murray user1@ race"])
    expect([query, await found(query)]).toEqual([query, [grace]]);
  for (const query of ["zoe muller", "muller zoe", "ZO\u00cb m"])
    expect([query, await found(query)]).toEqual([query, [zoe]]);
  expect(await found("grace muller")).toEqual([]);
  await expect(found("a b c d e f g h i j kl")).rejects.toMatchObject({ code: "validation_failed" });
});

test("the oldest come first on demand, and who has a second factor is known of each kind", async () => {
  const ids: string[] = [];
  for (let index = 0; index < 5; index += 1) ids.push(await plant("USER", index));
  const [app = "", begun = "", key = ""] = ids;
  const page = await listUsers(deps, { limit: 3, sort: "oldest" });
  const rest = await listUsers(deps, { limit: 3, sort: "oldest", cursor: page.nextCursor });
  expect([...page.users, ...rest.users].map(({ id }) => id)).toEqual(ids);

  const withFactor = async (hasSecondFactor: boolean) =>
    (await listUsers(deps, { limit: 10, hasSecondFactor })).users.map(({ id }) => id);
  await deps.sql`
    insert into totp_credentials (user_id, secret_encrypted, key_id, created_at)
    select id, ${Buffer.alloc(48)}, ${"a".repeat(16)}, now() from unnest(${[app, begun]}::uuid[]) as id`;
  await deps.sql`update totp_credentials set confirmed_at = created_at where user_id = ${app}`;
  const insertKey = (user: string) => deps.sql`
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible, is_backed_up, name, created_at)
    values (${deps.newId()}, ${user}, ${Buffer.from(user)}, '\\x01', 0, '{}', false, false, 'Key', now())`;
  for (const user of [app, key]) await insertKey(user);
  expect(await withFactor(true)).toEqual([key, app]);
  await deps.sql`delete from passkeys`;
  expect(await withFactor(true)).toEqual([app]);
  await deps.sql`delete from totp_credentials`;
  expect(await withFactor(false)).toEqual(ids.toReversed());
});

test("those who never logged in come first, then the longest ago, page by page; a time leaves the later ones out", async () => {
  const ids: string[] = [];
  for (let index = 0; index < 6; index += 1) ids.push(await plant("USER", index));
  const [never, recent, old = "", twin = "", alsoNever, middle = ""] = ids;
  const days = [
    [recent, 1],
    [old, 300],
    [twin, 300],
    [middle, 30],
  ] as const;
  for (const [id = "", ago] of days)
    await deps.sql`update users set last_login_at = date_trunc('milliseconds', now() - ${ago} * interval '1 day') where id = ${id}`;
  await deps.sql`update users set last_login_at = (select last_login_at from users where id = ${old}) where id = ${twin}`;
  const walk = async (filter: Partial<Parameters<typeof listUsers>[1]>) => {
    const seen: string[] = [];
    let cursor: string | undefined;
    do {
      const page = await listUsers(deps, { limit: 2, ...filter, cursor });
      seen.push(...page.users.map(({ id }) => id));
      cursor = page.nextCursor;
    } while (cursor !== undefined);
    return seen;
  };
  expect(await walk({ sort: "last_login" })).toEqual([never, alsoNever, old, twin, middle, recent]);
  expect(await walk({ lastLogin: "never" })).toEqual([alsoNever, never]);
  const weekAgo = new Date(Date.now() - 7 * 86_400_000);
  expect(await walk({ lastLogin: weekAgo })).toEqual([old, twin, middle]);
  const yearZero = new Date("0000-01-01T00:00:00Z");
  await expect(listUsers(deps, { limit: 2, lastLogin: yearZero })).rejects.toMatchObject({
    code: "validation_failed",
  });
  const noCursors = ["x", `${old}~x`, `${old}~2026-01-01T00:00:00Z~`, `${old}~+275760-09-13T00:00:00.000Z`];
  for (const cursor of [...noCursors, `${old}~0000-01-01T00:00:00Z`])
    await expect(listUsers(deps, { limit: 2, sort: "last_login", cursor })).rejects.toMatchObject({
      code: "validation_failed",
    });
});

test("the first page says how many fit: exactly, then by the statistics, and of a text only that there are more", async () => {
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, created_at, updated_at)
    select ('00000000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, 'n' || n || '@example.com', 'Ada', 'L', 'USER',
      case when n % 2 = 0 then 'active' else 'disabled' end, true, now(), now()
    from generate_series(1, 60) as n`;
  await database.ownerSql`analyze users`;
  const first = await listUsers(deps, { limit: 10 });
  expect(first.total).toEqual({ count: 60, is: "exact" });
  expect((await listUsers(deps, { limit: 10, cursor: first.nextCursor })).total).toBeUndefined();
  expect((await listUsers(deps, { limit: 10, query: "n7@" })).total).toEqual({ count: 1, is: "exact" });
  expect(await countUsers(deps.sql, {}, 60)).toEqual({ count: 60, is: "exact" });
  const about = (count: number, atMost: number) =>
    IS_CITUS ? { count: atMost, is: "over" } : { count, is: "about" };
  expect(await countUsers(deps.sql, {}, 59)).toEqual(about(60, 59));
  expect(await countUsers(deps.sql, { status: "disabled" }, 20)).toEqual(about(30, 20));
  expect(await countUsers(deps.sql, { query: "ada" }, 20)).toEqual({ count: 20, is: "over" });
});

test("names of any script are found in any case, and what LIKE means by % _ and \\ is only text", async () => {
  const plantName = async (index: number, name: string) => {
    const id = await plant("USER", index);
    await database.ownerSql`update users set last_name = ${name} where id = ${id}`;
    return id;
  };
  const [aase, greek, plain, odd] = [
    await plantName(1, "\u00c5se \u00d6sterg\u00e5rd"),
    await plantName(2, "\u03a3\u03b1\u03c0\u03c6\u03ce"),
    await plantName(3, "Ivanov"),
    await plantName(4, "100%_\\"),
  ];
  const found = async (query: string) =>
    (await listUsers(deps, { limit: 10, query })).users.map(({ id }) => id);
  expect(await found("\u00e5SE \u00f6STER")).toEqual([aase]);
  // Decomposed: A and a ring of its own.
  expect(await found("A\u030ase")).toEqual([aase]);
  expect(await found("\u03c3\u03b1\u03a0\u03a6\u038f")).toEqual([greek]);
  expect(await found("IVANOV")).toEqual([plain]);
  for (const query of ["0%_", "%_\\"]) expect(await found(query)).toEqual([odd]);
});

test("short names, both orders, and accents or none find a user", async () => {
  const plantNames = async (index: number, first: string, last: string) => {
    const id = await plant("USER", index);
    await database.ownerSql`update users set first_name = ${first}, last_name = ${last} where id = ${id}`;
    return id;
  };
  const [li, bo, jose, persian, kim, one, jorg, aesa] = [
    await plantNames(1, "小龙", "李"),
    await plantNames(2, "Bo", "Ng"),
    await plantNames(3, "José María", "Nuñez-Łuk"),
    await plantNames(4, "علی\u200cرضا", "رضایی"),
    await plantNames(5, "민준", "김"),
    await plantNames(6, "Ayu", ""),
    await plantNames(7, "Jörg", "Groß"),
    await plantNames(8, "Æsa", "Bjørk-Guðsœur"),
  ];
  await database.ownerSql`update users set email = 'user@xn--bcher-kva.example' where id = ${bo}`;
  const found = async (query: string) =>
    (await listUsers(deps, { limit: 10, query })).users.map(({ id }) => id);
  for (const query of ["小龙", "李", "李小龙", "小龙李", "小龙 李", "李 小龙", "李\u3000小龙"]) {
    expect([query, await found(query)]).toEqual([query, [li]]);
  }
  for (const query of ["김", "민준", "김민준", "민"])
    expect([query, await found(query)]).toEqual([query, [kim]]);
  for (const query of ["Bo", "ng", "NG BO", "bo ng", "BoNg", "bücher", "user@bücher.example", "er@BÜCHER"]) {
    expect([query, await found(query)]).toEqual([query, [bo]]);
  }
  for (const query of ["jose", "JOSÉ", "jose\u0301", "nunez", "luk jose", "Maria Nuñez", "maría"]) {
    expect([query, await found(query)]).toEqual([query, [jose]]);
  }
  for (const query of ["gross", "Groß", "GROẞ", "jorg gross", "großjörg"])
    expect([query, await found(query)]).toEqual([query, [jorg]]);
  for (const query of ["aesa", "ÆSA", "bjork", "gudsoeur"])
    expect([query, await found(query)]).toEqual([query, [aesa]]);
  for (const query of ["Ayu", "ay", " AYU "]) expect([query, await found(query)]).toEqual([query, [one]]);
  for (const query of ["علی\u200cرضا", "علیرضا"]) expect(await found(query)).toEqual([persian]);
  // Only the beginning of a word: within one, two characters would read every user.
  for (const query of ["os", "ar", "%%", "__", "o_", "%o", "\\\\"])
    expect([query, await found(query)]).toEqual([query, []]);
});

test("a complete address finds its user alone, and is part of others without one", async () => {
  const [one, longer] = [await plant("USER", 1), await plant("USER", 2)];
  const rename = (id: string, email: string) =>
    database.ownerSql`update users set email = ${email} where id = ${id}`;
  await rename(one, "ann@mail.example");
  await rename(longer, "joann@mail.example");
  const found = async (filter: Partial<Parameters<typeof listUsers>[1]>) =>
    (await listUsers(deps, { limit: 10, ...filter })).users.map(({ id }) => id);
  expect(await found({ query: "Ann@Mail.example" })).toEqual([one]);
  expect(await found({ query: "ann@mail.example", role: "USER", status: "active" })).toEqual([one]);
  expect(await found({ query: "nn@mail.example" })).toEqual([longer, one]);
  await rename(one, "anna@mail.example");
  expect(await found({ query: "ann@mail.example" })).toEqual([longer]);
});

test("a search among many reads an index, not every user", async () => {
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, created_at, updated_at)
    select gen_random_uuid(), 'u' || n || '@example.com', 'Ada', md5(n::text), 'USER', 'active', true, now(), now()
    from generate_series(1, 20000) as n`;
  await database.ownerSql`vacuum analyze users`;
  expect((await listUsers(deps, { limit: 10, query: "U777@EXAMPLE" })).users).toHaveLength(1);
  const plan = await database.sql`
    explain select id from users
    where searched like folded(${"%U777@EXAMPLE%"}) order by id desc limit 11`;
  expect(JSON.stringify(plan)).toContain("users_by_searched");
  // Two characters are in the index as the beginning of a word only.
  for (const name of ["Qz", "小龙", "李"]) {
    await plant("USER", 7);
    const short = await database.sql`
      explain select id from users where searched like folded(${`% ${name}%`}) order by id desc limit 11`;
    expect(JSON.stringify(short)).toContain("users_by_searched");
    await emptyTables(database.ownerSql, "counted_mails");
    await database.ownerSql`delete from users where email = 'user7@example.com'`;
  }
});

test("a text that some, a few or many have is found in order, page by page, each once", async () => {
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, created_at, updated_at)
    select gen_random_uuid(), 'u' || n || '@example.com', 'Ada' || repeat('many', (n % 2)::int) || repeat('some', (n % 20 = 0)::int),
      repeat('few', (n % 700 = 0)::int), 'USER', 'active', true, now(), now()
    from generate_series(1, 3000) as n`;
  await database.ownerSql`vacuum analyze users`;
  for (const query of ["many", "some", "few", "none"]) {
    const rows = await database.sql<{ id: string }[]>`
      select id from users where first_name || last_name like ${`%${query}%`} order by id`;
    const oldest = rows.map(({ id }) => id);
    for (const [sort, expected] of [["oldest", oldest] as const, ["newest", oldest.toReversed()] as const]) {
      const found: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await listUsers(deps, { limit: 49, sort, query, cursor });
        found.push(...page.users.map(({ id }) => id));
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      expect(found).toEqual(expected);
    }
  }
});

test.each([
  { limit: 0 },
  { limit: 101 },
  { limit: 10, cursor: "x" },
  { limit: 10, ids: ["x"] },
  { limit: 10, ids: Array(101).fill(randomUUID()) },
  { limit: 10, query: "\0" },
  { limit: 10, query: "a" },
  { limit: 10, query: "é" },
  { limit: 10, query: " " },
  { limit: 10, query: " a " },
])("a list with %j is refused", async (request) => {
  await expect(listUsers(deps, request)).rejects.toMatchObject({ code: "validation_failed" });
});

test.each(["", "me", "019a0000-0000-7000-8000-000000000000"])("there is no user %j", async (userId) => {
  for (const work of [
    () => getAccount(deps, userId),
    () => access(userId, { role: "ADMIN" }),
    () => deleteUser(deps, userId, context()),
  ]) {
    expect(await codeOf(work())).toBe("not_found");
  }
});

test("a corrected name is tidied, ends no session, and leaves an entry without names", async () => {
  await plant("ADMIN");
  const userId = await plant("USER", 1);
  const rename = (names: { firstName?: string; lastName?: string }, actReason = "Ticket 4711") =>
    setUserAccess(deps, { userId, ...names, actReason }, context());
  const stored = async () => {
    const { firstName, lastName, role, status } = await getAccount(deps, userId);
    return [firstName, lastName, role, status];
  };
  for (const names of [{ firstName: "" }, { firstName: "A\u202eb" }, { lastName: "x".repeat(101) }])
    expect(await codeOf(rename(names))).toBe("validation_failed");
  expect((await rename({ firstName: " Zoe\u0308  Ann " })).user).toMatchObject({ firstName: "Zo\u00eb Ann" });
  expect(await stored()).toEqual(["Zo\u00eb Ann", "Nr 1", "USER", "active"]);
  expect((await rename({ firstName: "Zo\u00eb Ann", lastName: "" })).user.lastName).toBe("");
  await rename({ lastName: "" });
  expect(await stored()).toEqual(["Zo\u00eb Ann", "", "USER", "active"]);
  expect((await listUsers(deps, { limit: 10, query: "zoe" })).users.map(({ id }) => id)).toEqual([userId]);
  expect(deps.tokenService.revokeUserSessions).not.toHaveBeenCalled();
  const events = await database.ownerSql`
    select type, actor_id as by, person, reason from security_events where user_id = ${userId}`;
  const entry = { type: "profile_updated", by: null, person: context().person, reason: "Ticket 4711" };
  expect(events).toEqual([entry, entry]);
});

test("a role change and a disable are committed before the sessions are ended, and say which ended", async () => {
  await plant("ADMIN");
  const userId = await plant("USER");
  for (const [change, reason] of [
    [{ role: "AUDITOR" }, "role_changed"],
    [{ status: "disabled" }, "account_disabled"],
  ] as const) {
    let stored: unknown;
    deps.tokenService.revokeUserSessions.mockImplementationOnce(async () => {
      [stored] = await database.ownerSql`select role, status from users where id = ${userId}`;
      return ["s1"];
    });
    const { user, sessionIds } = await access(userId, change);
    expect(sessionIds).toEqual(["s1"]);
    expect(stored).toMatchObject(change);
    expect({ role: user.role, status: user.status }).toMatchObject(change);
    expect(deps.tokenService.revokeUserSessions.mock.lastCall?.[0]).toMatchObject({ userId, reason });
  }
  expect(await database.ownerSql`select * from session_ends`).toEqual([]);
});

test("while token-service is away the change stands, the caller gets an error, and the sessions end later", async () => {
  await plant("ADMIN");
  const userId = await plant("USER");
  deps.tokenService.revokeUserSessions.mockRejectedValueOnce(new DomainError("service_unavailable"));
  expect(await codeOf(access(userId, { status: "disabled" }))).toBe("service_unavailable");
  expect((await getAccount(deps, userId)).status).toBe("disabled");
  const later = { ...deps, now: () => new Date(deps.now().getTime() + 60_000) };
  await createSessionEndWorker(later, createMetrics("test")).poll();
  expect(deps.tokenService.revokeUserSessions).toHaveBeenCalledTimes(2);
  expect(await database.ownerSql`select * from session_ends`).toEqual([]);
});

test("a call without a change ends no session; a repeated disable ends them again", async () => {
  await plant("ADMIN");
  const userId = await plant("USER");
  await access(userId, { role: "USER", status: "active" });
  expect(deps.tokenService.revokeUserSessions).not.toHaveBeenCalled();
  await access(userId, { status: "disabled" });
  await access(userId, { status: "disabled" });
  expect(deps.tokenService.revokeUserSessions).toHaveBeenCalledTimes(2);
});

test("the only active administrator stays one", async () => {
  const admin = await plant("ADMIN", 1);
  await plant("ADMIN", 2, "disabled");
  expect(await codeOf(access(admin, { role: "USER" }))).toBe("last_admin");
  expect(await codeOf(access(admin, { status: "disabled" }))).toBe("last_admin");
  expect(await codeOf(deleteUser(deps, admin, context()))).toBe("last_admin");
  expect(await codeOf(access(admin.toUpperCase(), { role: "USER" }))).toBe("last_admin");
  expect(await codeOf(deleteUser(deps, admin.toUpperCase(), context()))).toBe("last_admin");
  expect(await activeAdmins()).toEqual([admin]);
  expect(deps.tokenService.revokeUserSessions).not.toHaveBeenCalled();
  expect(await codeOf(access(admin, { role: "ADMIN", status: "active" }))).toBe("done");
});

const GOOGLE = "https://id.example";
const onlyProvider = (issuer: string) => new Map([["google", { issuer } as RelyingParty]]);
const setHash = (id: string, hash: string | null) =>
  database.ownerSql`update users set password_hash = ${hash} where id = ${id}`;
const unverify = (id: string) => database.ownerSql`update users set email_verified = false where id = ${id}`;
const link = (id: string) => database.ownerSql`
  insert into external_identities (issuer, subject, user_id, provider, linked_at)
  values (${GOOGLE}, '1', ${id}, 'google', now())`;
const addPasskey = (id: string) => database.ownerSql`
  insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible, is_backed_up,
    name, created_at)
  values (${deps.newId()}, ${id}, ${Buffer.alloc(16)}, ${Buffer.alloc(1)}, 0, '{}', false, false, 'key', now())`;
const lock = async (id: string) => {
  const { email } = await getAccount(deps, id);
  const attempt = { email, password: "wrong", clientIp: "192.0.2.1", userAgent: "", deviceToken: "" };
  for (let count = 0; count < 6; count += 1) await logInWith(deps, attempt, context()).catch(() => undefined);
  expect(await deps.throttle.lockedUntil(email)).toBeDefined();
};

test.each<[string, "done" | "last_admin", (other: string) => unknown]>([
  ["has a password", "done", () => undefined],
  ["is locked for wrong passwords, which anybody can do", "done", lock],
  ["has an unverified address that no login asks about", "done", unverify],
  ["has a passkey alone", "done", (id) => [setHash(id, null), addPasskey(id)]],
  [
    "has an identity of a provider alone",
    "done",
    (id) => [setHash(id, null), link(id), set({ relyingParties: onlyProvider(GOOGLE) })],
  ],
  ["has a passkey beside an unreadable hash", "done", (id) => [setHash(id, "$argon2id$"), addPasskey(id)]],
  ["has no way in", "last_admin", (id) => setHash(id, null)],
  ["has a hash that is cut off", "last_admin", (id) => setHash(id, "$argon2id$")],
  [
    "has a hash of an unknown pepper",
    "last_admin",
    (id) => setHash(id, READABLE_HASH.replace("p=1", "p=1,keyid=AAAAAAAAAAA")),
  ],
  [
    "has only an identity of a provider that is not configured",
    "last_admin",
    (id) => [setHash(id, null), link(id), set({ relyingParties: onlyProvider("https://other.example") })],
  ],
  [
    "has an unverified address where logins ask for a verified one",
    "last_admin",
    (id) => [unverify(id), set({ loginRequiresVerifiedEmail: true })],
  ],
  [
    "has a passkey and an unverified address where logins ask",
    "last_admin",
    (id) => [unverify(id), addPasskey(id), set({ loginRequiresVerifiedEmail: true })],
  ],
  ["is disabled", "last_admin", (id) => access(id, { status: "disabled" })],
  ["is deleted", "last_admin", (id) => deleteUser(deps, id, context())],
])("whether another administrator remains who %s: %s", async (_, expected, make) => {
  const admin = await plant("ADMIN", 1);
  const other = await plant("ADMIN", 2);
  await Promise.all([make(other)].flat());
  const demoted = await codeOf(access(admin, { role: "USER" }));
  await access(admin, { role: "ADMIN" });
  const disabled = await codeOf(access(admin, { status: "disabled" }));
  await access(admin, { status: "active" });
  const deleted = await codeOf(deleteUser(deps, admin, context()));
  expect([demoted, disabled, deleted]).toEqual([expected, expected, expected]);
});

test("an administrator who cannot log in can be removed while another one can", async () => {
  await plant("ADMIN", 1);
  const other = await plant("ADMIN", 2);
  await database.ownerSql`update users set password_hash = null where id = ${other}`;
  expect(await codeOf(access(other, { status: "disabled" }))).toBe("done");
  expect(await codeOf(deleteUser(deps, other, context()))).toBe("done");
});

test("two administrators who demote, disable or delete each other at once: one stays, 20 times", async () => {
  const demote = (id: string) => access(id, { role: "USER" });
  const disable = (id: string) => access(id, { status: "disabled" });
  const remove = (id: string) => deleteUser(deps, id, context());
  for (let round = 0; round < 20; round += 1) {
    await emptyTables(database.ownerSql, "users", "counted_mails");
    const first = await plant("ADMIN", 1);
    const second = await plant("ADMIN", 2);
    const [here = demote, there = demote] = [round, round >> 1].map(
      (turn) => [demote, disable, remove][turn % 3],
    );
    const codes = await Promise.all([codeOf(here(first)), codeOf(there(second))]);
    expect(codes.sort()).toEqual(["done", "last_admin"]);
    expect(await activeAdmins()).toHaveLength(1);
  }
});

test("a login that read `active` before a disable has no session after it", async () => {
  await plant("ADMIN");
  const registration = { email: "anna@example.com", password: "Password123!", firstName: "A", lastName: "S" };
  await register(deps, registration, soon());
  const [row] = await database.ownerSql<{ id: string }[]>`select id from users where role = 'USER'`;
  const { issueSession } = deps.tokenService;
  deps.tokenService.issueSession = issueSession.mockImplementationOnce(async (session) => {
    // The disable, with its revocation, between the check of the password and the new session.
    await access(row?.id ?? "", { status: "disabled" });
    return {
      accessToken: "a",
      refreshToken: "r",
      expiresInS: 900,
      refreshExpiresInS: 604_800,
      sessionId: "late",
      userId: session.userId,
    };
  });
  const attempt = { ...registration, clientIp: "", userAgent: "", deviceToken: "" };
  expect(await codeOf(logInWith(deps, attempt, context()))).toBe("invalid_credentials");
  expect(deps.tokenService.revokeSession).toHaveBeenCalledWith(
    expect.objectContaining({ sessionId: "late" }),
    expect.anything(),
  );
});

test("a deleted user is gone, with mails that are not sent, and the sessions end", async () => {
  await plant("ADMIN");
  const userId = await plant("USER");
  deps.tokenService.revokeUserSessions.mockResolvedValueOnce(["s1"]);
  expect(await deleteUser(deps, userId, context())).toEqual({ sessionIds: ["s1"], clients: [] });
  expect(await codeOf(getAccount(deps, userId))).toBe("not_found");
  expect(await codeOf(deleteUser(deps, userId, context()))).toBe("not_found");
});

test("with a user the throttle forgets the address, at the login and within sessions", async () => {
  const userId = await plant("USER", 1);
  const guesses = ["user1@example.com", `reauthentication ${userId}`].map((account) => ({
    account,
    clientIp: "",
  }));
  for (const guess of guesses) {
    for (let round = 0; round < 5; round += 1) await deps.throttle.take(guess);
    expect((await deps.throttle.take(guess)).kind).toBe("locked");
  }
  await deleteUser(deps, userId, context());
  for (const guess of guesses) {
    expect((await deps.throttle.take({ ...guess, clientIp: "192.0.2.1" })).kind).toBe("admitted");
  }
});

test("a lost second factor is removed, a mail is sent, and every session ends; without one nothing happens", async () => {
  const userId = await plant("USER");
  expect(await resetUserMfa(deps, userId, context())).toEqual([]);
  expect(await codeOf(resetUserMfa(deps, deps.newId(), context()))).toBe("not_found");
  await database.ownerSql`
    insert into totp_credentials (user_id, secret_encrypted, key_id, created_at, confirmed_at)
    values (${userId}, ${Buffer.alloc(48)}, '0123456789abcdef', now(), now())`;
  expect((await getAccount(deps, userId)).mfaEnabled).toBe(true);
  deps.tokenService.revokeUserSessions.mockResolvedValueOnce(["s1"]);
  expect(await resetUserMfa(deps, userId, context())).toEqual(["s1"]);
  expect((await getAccount(deps, userId)).mfaEnabled).toBe(false);
  expect(await database.ownerSql`select template from mail_outbox`).toEqual([{ template: "mfa-disabled" }]);
});

test("setting an account to active clears the throttling of its logins", async () => {
  await plant("ADMIN");
  const userId = await plant("USER", 1);
  const guess = (index: number) => ({ account: "user1@example.com", clientIp: `192.0.2.${index}` });
  for (let index = 0; index < 5; index += 1) await deps.throttle.take(guess(index));
  expect((await deps.throttle.take(guess(9))).kind).toBe("locked");
  await access(userId, { status: "active" });
  expect((await deps.throttle.take(guess(9))).kind).toBe("admitted");
});

test("a change of a user waits for no administrator; one of an administrator counts them all", async () => {
  const admin = await plant("ADMIN", 901);
  await plant("ADMIN", 902);
  const user = await plant("USER", 903);
  const other = await plant("USER", 904);
  const config = {
    DATABASE_URL: database.url,
    DATABASE_PASSWORD_FILE: new Secret(database.password),
    DATABASE_POOL_SIZE: 1,
  };
  const service = connectPostgres(config, "test", deps.logger); // waits for a lock no longer than a service does
  // Citus's coordinator does not know of a lock on another node: the wait ends with the statement's time.
  const refused = { code: "service_unavailable", cause: { code: IS_CITUS ? "57014" : "55P03" } };
  await transaction(database.sql, async (tx) => {
    await lockActiveAdmins(tx);
    await setUserAccess(deps, { userId: user, status: "disabled" }, context());
    await setUserAccess(deps, { userId: user, role: "AUDITOR" }, context());
    await deleteUser(deps, other, context());
    const change = setUserAccess({ ...deps, sql: service }, { userId: admin, status: "disabled" }, context());
    await expect(change).rejects.toMatchObject(refused);
  });
  await service.end();
  await setUserAccess(deps, { userId: admin, status: "disabled" }, context());
});

test("a user who becomes an administrator during a change is not changed", () => {
  expect(() => assertOtherAdmin(undefined, "x")).toThrow(
    expect.objectContaining({ code: "service_unavailable" }),
  );
  const admin = (id: string, canLogIn = true) => ({ id, canLogIn });
  const last = expect.objectContaining({ code: "last_admin" });
  expect(() => assertOtherAdmin([admin("x")], "x")).toThrow(last);
  expect(() => assertOtherAdmin([admin("x"), admin("y", false)], "x")).toThrow(last);
  expect(() => assertOtherAdmin([admin("x"), admin("y")], "x")).not.toThrow();
  expect(() => assertOtherAdmin([admin("y", false)], "x")).not.toThrow();
});
