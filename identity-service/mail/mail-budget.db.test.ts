import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { changeEmail } from "../accounts/change-email.ts";
import { changePassword } from "../accounts/change-password.ts";
import { deleteAccount } from "../accounts/delete-account.ts";
import { forgotPassword, resendVerification } from "../accounts/mail-a-link.ts";
import { register } from "../accounts/register.ts";
import { sessionAt, soon, testDeps } from "../testing/test-deps.ts";
import { lockAccount } from "../users/account-store.ts";
import type { MailName } from "./mail.ts";
import { deleteOldMailCounts } from "./mail-budget.ts";
import { lockRecipient } from "./mail-budget-store.ts";
import { enqueueMail } from "./mail-outbox-store.ts";

let database: TestDatabase;
let deps: Awaited<ReturnType<typeof testDeps>>;
let nowMs: number;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  await emptyTables(database.ownerSql, "users", "counted_mails", "mail_outbox", "released_addresses");
  nowMs = Date.parse("2031-01-02T03:04:05.678Z");
  deps = { ...(await testDeps(database.sql)), now: () => new Date(nowMs) };
});
afterAll(() => database.drop());

const VICTIM = "victim@example.com";
const PASSWORD = "Password123!";
const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const context = () => newCallContext({ budgetMs: 60_000 });
const signUp = (email: string) =>
  register(deps, { email, password: PASSWORD, firstName: "A", lastName: "B" }, soon());
const prove = (email: string) =>
  database.ownerSql`update users set email_verified = true where email = ${email}`;
const mailsTo = async (recipient: string) =>
  (
    await database.ownerSql<{ template: MailName }[]>`
      select template from mail_outbox where recipient = ${recipient} order by created_at`
  ).map(({ template }) => template);
/** Leaves no mail of an account behind: those count that were asked for. */
const erase = () => database.ownerSql`delete from users`;
async function askForReset(): Promise<void> {
  await forgotPassword(deps, { email: VICTIM });
  await deps.afterAnswer.drained();
}

test("a hundred rounds of registering and deleting mail a stranger five times, however the account goes", async () => {
  for (let round = 0; round < 100; round += 1) {
    await signUp(VICTIM);
    await erase();
  }
  expect(await mailsTo(VICTIM)).toHaveLength(5);
});

test("tagged addresses share a mailbox's mails of strangers, not its resets, and stay accounts of their own", async () => {
  const tagged = (tag: number) => `victim+${tag}@example.com`;
  const all = async () => (await database.ownerSql`select from mail_outbox`).length;
  for (let tag = 0; tag < 8; tag += 1) await signUp(tagged(tag));
  expect(await all()).toBe(5);
  expect(await database.ownerSql`select from users`).toHaveLength(8);
  await signUp(VICTIM);
  await signUp("victim@example.org");
  await signUp("+victim@example.com");
  expect([await all(), await mailsTo(VICTIM)]).toEqual([7, []]);
  // A stranger's accounts do not use up the owner's way back.
  deps = { ...deps, mailLimits: { ...deps.mailLimits, resetsPerDay: 1 } };
  await erase();
  for (const email of [tagged(1), tagged(2), VICTIM]) {
    await signUp(email);
    await prove(email);
    await forgotPassword(deps, { email });
    await deps.afterAnswer.drained();
    expect(await mailsTo(email)).toContain("reset-password");
  }
});

test("an owner who deletes an account that was never proven mails its address once an hour at most", async () => {
  const { id: userId } = await signUp(VICTIM);
  await deleteAccount(deps, { ...sessionAt(deps), userId, password: PASSWORD, clientIp: "" }, context());
  for (let round = 0; round < 100; round += 1) {
    await expect(signUp(VICTIM)).rejects.toMatchObject({ code: "email_already_registered" });
  }
  const [row] = await database.ownerSql`select count(*)::int as count from counted_mails`;
  expect(row?.count).toBe(1);
  nowMs += HOUR_MS;
  await signUp(VICTIM);
});

test("who registers an address and deletes the account again and again keeps it from its owner for an hour a day", async () => {
  const squat = async () => {
    const { id: userId } = await signUp(VICTIM);
    await deleteAccount(deps, { ...sessionAt(deps), userId, password: PASSWORD, clientIp: "" }, context());
  };
  await squat();
  for (let hour = 1; hour < 24; hour += 1) {
    nowMs += HOUR_MS;
    await deleteOldMailCounts(deps);
    await squat();
  }
  await signUp(VICTIM);
});

test("a registration that says nothing treats such an address like any other", async () => {
  const { id: userId } = await signUp(VICTIM);
  await deleteAccount(deps, { ...sessionAt(deps), userId, password: PASSWORD, clientIp: "" }, context());
  deps = { ...deps, registrationDiscloses: false };
  await signUp(VICTIM);
  expect(await database.ownerSql`select from users`).toHaveLength(0);
});

test("a mail to an owner whose account another call has locked waits for nothing that the call may wait for", async () => {
  const { id } = await signUp(VICTIM);
  deps = { ...deps, registrationDiscloses: false };
  await transaction(database.sql, async (tx) => {
    await lockAccount(tx, id);
    await signUp(VICTIM);
  });
  expect(await mailsTo(VICTIM)).toEqual(["verify-email", "registration-attempt"]);
});

test("a notice that is in the outbox already waits for no count", async () => {
  const { id: userId } = await signUp(VICTIM);
  const data = { occurredAt: "now", ip: "192.0.2.1", browser: "a browser" };
  const notice = { id: deps.newId(), userId, recipient: VICTIM, template: "new-device", data } as const;
  const enqueue = () => transaction(database.sql, (tx) => enqueueMail(tx, notice, deps.now()));
  expect(await enqueue()).toBe(true);
  await transaction(database.sql, async (tx) => {
    await lockRecipient(tx, VICTIM);
    expect(await enqueue()).toBe(false);
  });
});

test("any number of accounts that want an address as theirs mail it five times an hour and ten times a day", async () => {
  const want = async (index: number) => {
    const { id: userId } = await signUp(`a${index}@example.com`);
    const request = { userId, password: PASSWORD, newEmail: VICTIM, clientIp: "" };
    await changeEmail(deps, { ...sessionAt(deps), ...request }, soon());
    await deps.afterAnswer.drained();
  };
  for (let index = 0; index < 10; index += 1) await want(index);
  expect(await mailsTo(VICTIM)).toHaveLength(5);
  nowMs += HOUR_MS;
  for (let index = 10; index < 20; index += 1) await want(index);
  expect(await mailsTo(VICTIM)).toHaveLength(10);
  nowMs += HOUR_MS;
  await want(20);
  expect(await mailsTo(VICTIM)).toHaveLength(10);
  nowMs += 22 * HOUR_MS;
  await want(21);
  expect(await mailsTo(VICTIM)).toHaveLength(11);
});

test("thirty registrations of one address at once: five mails", async () => {
  deps = { ...deps, registrationDiscloses: false };
  await signUp(VICTIM);
  await erase();
  await Promise.all(
    Array.from({ length: 30 }, async (_, index) => {
      const { id: userId } = await signUp(`b${index}@example.com`);
      await changeEmail(
        deps,
        { ...sessionAt(deps), userId, password: PASSWORD, newEmail: VICTIM, clientIp: "" },
        soon(),
      );
    }),
  );
  await deps.afterAnswer.drained();
  expect(await mailsTo(VICTIM)).toHaveLength(5);
});

test("notices about an account reach an address without bound once it is proven, and not before", async () => {
  const { id: userId } = await signUp(VICTIM);
  let password = PASSWORD;
  const changeOften = async (times: number) => {
    for (let index = 0; index < times; index += 1) {
      const newPassword = `a long password ${password.length}${index}`;
      const request = { userId, sessionId: deps.newId(), currentPassword: password, newPassword };
      await changePassword(deps, { ...sessionAt(deps), ...request, clientIp: "" }, context());
      password = newPassword;
    }
  };
  await changeOften(10);
  expect(await mailsTo(VICTIM)).toHaveLength(5);
  await prove(VICTIM);
  await changeOften(10);
  expect(await mailsTo(VICTIM)).toHaveLength(15);
});

test("a call that gets no mail kills no link of an earlier one", async () => {
  deps = { ...deps, mailLimits: { ...deps.mailLimits, strangersPerHour: 1 } };
  await signUp(VICTIM);
  await resendVerification(deps, { email: VICTIM });
  await deps.afterAnswer.drained();
  expect(await mailsTo(VICTIM)).toEqual(["verify-email"]);
  expect(await database.ownerSql`select consumed_at from links`).toEqual([{ consumed_at: null }]);
});

test("an attacker who requests reset links all day leaves the owner with an open one at every moment", async () => {
  await signUp(VICTIM);
  await prove(VICTIM);
  let fewest = Number.POSITIVE_INFINITY;
  for (let minute = 0; minute < 24 * 60; minute += 5) {
    await askForReset();
    const [row] = await database.ownerSql<{ open: number }[]>`
      select count(*)::int as open from links
      where purpose = 'reset_password' and consumed_at is null and expires_at > ${deps.now()}`;
    fewest = Math.min(fewest, row?.open ?? 0);
    nowMs += 5 * MINUTE_MS;
  }
  expect(fewest).toBeGreaterThanOrEqual(1);
  const sent = (await mailsTo(VICTIM)).filter((template) => template === "reset-password").length;
  expect(sent).toBeLessThanOrEqual(59);
});

test("mails that strangers cause take nothing from the owner's reset link", async () => {
  await signUp(VICTIM);
  await prove(VICTIM);
  deps = { ...deps, mailLimits: { ...deps.mailLimits, strangersPerHour: 1, strangersPerDay: 1 } };
  await askForReset();
  expect(await mailsTo(VICTIM)).toEqual(["verify-email", "reset-password"]);
});

test("the limit of reset links by day holds over accounts of an address", async () => {
  deps = { ...deps, mailLimits: { ...deps.mailLimits, resetsPerDay: 2 } };
  for (let round = 0; round < 3; round += 1) {
    await signUp(VICTIM);
    await askForReset();
    await erase();
  }
  expect((await mailsTo(VICTIM)).filter((template) => template === "reset-password")).toHaveLength(2);
});

test("counts are deleted after a day, and a reservation a day after its end", async () => {
  const { id: userId } = await signUp(VICTIM);
  await deleteAccount(deps, { ...sessionAt(deps), userId, password: PASSWORD, clientIp: "" }, context());
  await deleteOldMailCounts(deps);
  expect(await database.ownerSql`select from counted_mails`).toHaveLength(1);
  expect(await database.ownerSql`select from released_addresses`).toHaveLength(1);
  nowMs += 24 * HOUR_MS + 1;
  await deleteOldMailCounts(deps);
  expect(await database.ownerSql`select from counted_mails`).toHaveLength(0);
  expect(await database.ownerSql`select from released_addresses`).toHaveLength(1);
  nowMs += HOUR_MS;
  await deleteOldMailCounts(deps);
  expect(await database.ownerSql`select from released_addresses`).toHaveLength(0);
});
