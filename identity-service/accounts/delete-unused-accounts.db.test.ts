import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { inviteUser } from "../admin/invite-user.ts";
import { mailUser } from "../admin/mail-user.ts";
import { asOperator, soon, testDeps } from "../testing/test-deps.ts";
import { deleteUnusedAccounts } from "./delete-account.ts";
import { forgotPassword } from "./mail-a-link.ts";
import { register } from "./register.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(() => emptyTables(database.ownerSql, "users", "counted_mails", "security_events"));
afterAll(() => database.drop());

const DAY_MS = 24 * 3_600_000;

test("accounts that were never proven, used or linked are deleted after 90 days, and no others", async () => {
  const deps = await testDeps(database.sql);
  const signUp = async (name: string) => {
    const person = { email: `${name}@example.com`, password: "Password123!", firstName: "A", lastName: "B" };
    return (await register(deps, person, soon())).id;
  };
  await signUp("unused");
  await database.ownerSql`update users set email_verified = true where id = ${await signUp("proven")}`;
  await database.ownerSql`update users set first_login_at = now() where id = ${await signUp("used")}`;
  await database.ownerSql`update users set role = 'ADMIN' where id = ${await signUp("admin")}`;
  await database.ownerSql`
    insert into external_identities (issuer, subject, user_id, provider, linked_at)
    values ('https://i.example', 's', ${await signUp("linked")}, 'demo', now())`;
  const at = (days: number, ms = 0) => ({
    ...deps,
    now: () => new Date(deps.now().getTime() + days * DAY_MS + ms),
  });
  const left = async () => (await database.ownerSql`select from users`).length;

  await deleteUnusedAccounts({ ...at(4_000), unusedAccountDays: 0 });
  await deleteUnusedAccounts({ ...at(90), unusedAccountDays: 90 });
  expect(await left()).toBe(5);
  await deleteUnusedAccounts({ ...at(90, 1), unusedAccountDays: 90 });
  expect(await left()).toBe(4);
  expect(await database.ownerSql`select from users where email = 'unused@example.com'`).toHaveLength(0);
  expect(
    await database.ownerSql`select actor_id, reason, erased_email from security_events where type = 'account_deleted'`,
  ).toEqual([{ actor_id: null, reason: "never proven, never used", erased_email: "unused@example.com" }]);
});

test("whoever is invited anew at the last moment has the seven days of the invitation", async () => {
  const deps = await testDeps(database.sql);
  const at = (days: number) => ({ ...deps, now: () => new Date(deps.now().getTime() + days * DAY_MS) });
  const guest = { email: "guest@example.com", firstName: "A", lastName: "B", role: undefined, reason: "" };
  const { id: userId } = await inviteUser(deps, guest, asOperator());
  await mailUser(at(89), { userId, link: "confirmation", reason: "" }, asOperator());
  const isLeft = async (days: number) => {
    await deleteUnusedAccounts({ ...at(days), unusedAccountDays: 90 });
    return (await database.ownerSql`select from users`).length === 1;
  };
  expect(await isLeft(95.9)).toBe(true);
  // A link that strangers can ask for keeps nothing.
  await forgotPassword(at(96.1), { email: guest.email });
  await deps.afterAnswer.drained();
  expect(await isLeft(96.11)).toBe(false);
});

test("a run goes on behind the accounts that stay, page by page, and does not read them again", async () => {
  const deps = await testDeps(database.sql);
  const ids: string[] = [];
  for (const name of ["a", "b", "c", "d", "e"]) {
    const person = { email: `${name}@example.com`, password: "Password123!", firstName: "A", lastName: "B" };
    ids.push((await register(deps, person, soon())).id);
  }
  // All at the same microsecond, so that their ids decide the order.
  await database.ownerSql`update users set created_at = '2026-01-01 00:00:00.000001Z'`;
  const stay = ids.toSorted().slice(1, 4);
  for (const id of stay)
    await database.ownerSql`
      insert into external_identities (issuer, subject, user_id, provider, linked_at)
      values ('https://i.example', ${id}, ${id}, 'demo', now())`;
  const inAYear = () => new Date(deps.now().getTime() + 366 * DAY_MS);
  await deleteUnusedAccounts({ ...deps, now: inAYear, unusedAccountDays: 90 }, 1);
  const left = await database.ownerSql<{ id: string }[]>`select id from users order by id`;
  expect(left.map(({ id }) => id)).toEqual(stay);
});

test("the session of a login that was under way while its unused account was deleted is ended", async () => {
  const deps = await testDeps(database.sql);
  const person = { email: "late@example.com", password: "Password123!", firstName: "A", lastName: "B" };
  const { id: userId } = await register(deps, person, soon());
  const inAYear = {
    ...deps,
    now: () => new Date(deps.now().getTime() + 366 * DAY_MS),
    unusedAccountDays: 90,
  };
  const { revokeUserSessions } = deps.tokenService;
  const end = { userId, exceptSessionId: null, reason: "account_deleted" };

  revokeUserSessions.mockRejectedValueOnce(new DomainError("service_unavailable"));
  await expect(deleteUnusedAccounts(inAYear)).rejects.toMatchObject({ code: "service_unavailable" });
  expect(await database.ownerSql`select from users where id = ${userId}`).toEqual([]);
  const owed = () => database.ownerSql`
    select user_id as "userId", except_session_id as "exceptSessionId", reason from session_ends`;
  expect(await owed(), "the worker has it").toEqual([end]);

  await emptyTables(database.ownerSql, "session_ends");
  const { id: anotherId } = await register(deps, person, soon());
  await deleteUnusedAccounts(inAYear);
  expect(revokeUserSessions).toHaveBeenLastCalledWith({ ...end, userId: anotherId }, expect.anything());
  expect(await owed()).toEqual([]);
});
