import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { transaction } from "#kit/database/postgres.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { emptyTables } from "#tests/support/database/empty-tables.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import type { NewMail } from "./mail.ts";
import {
  claimDueMails,
  deleteDoneMails,
  giveUpMail,
  giveUpOverdueMails,
  insertMail,
  markMailSent,
  oldestWaitingMail,
  postponeMail,
} from "./mail-outbox-store.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
afterEach(() => emptyTables(database.ownerSql, "mail_outbox"));
afterAll(() => database.drop());

const START_MS = Date.parse("2031-01-02T03:04:05Z");
const at = (seconds: number) => new Date(START_MS + seconds * 1_000);
const newMail = (): NewMail => ({
  id: uuidv7(),
  userId: uuidv7(),
  recipient: "anna@example.com",
  template: "refresh-reuse",
  data: { occurredAt: "then", ip: "203.0.113.7", browser: "curl" },
});
const enqueue = async (mail = newMail(), now = at(0)) => {
  await transaction(database.sql, (tx) => insertMail(tx, mail, now));
  return mail.id;
};
const claim = (nowS: number, leaseS = 120, limit = 100) =>
  claimDueMails(database.sql, {
    now: at(nowS),
    leaseMs: leaseS * 1_000,
    createdAfter: at(-1_000),
    templates: ["refresh-reuse"],
    limit,
  });
const rows = () => database.ownerSql<Record<string, unknown>[]>`select * from mail_outbox order by id`;
const one = async (mails: ReturnType<typeof claim>) => {
  const [mail, ...more] = await mails;
  if (mail === undefined || more.length > 0) throw new Error("expected one mail");
  return mail;
};

test("a mail is there when its cause is committed, and not when that is rolled back", async () => {
  const cause = transaction(database.sql, async (tx) => {
    await insertMail(tx, newMail(), at(0));
    throw new Error("rolled back");
  });
  await expect(cause).rejects.toThrow("rolled back");
  expect(await rows()).toEqual([]);

  const mail = newMail();
  expect(await transaction(database.sql, (tx) => insertMail(tx, mail, at(0)))).toBe(true);
  expect(
    await transaction(database.sql, (tx) => insertMail(tx, { ...mail, recipient: "eve@example.com" }, at(1))),
  ).toBe(false);
  expect(await one(claim(0))).toEqual({
    id: mail.id,
    template: "refresh-reuse",
    recipient: "anna@example.com",
    data: mail.data,
    attempts: 1,
    language: null,
    timeZone: null,
  });
});

test("no other worker claims a mail until its lease ends", async () => {
  const id = await enqueue();
  expect(await claim(0)).toMatchObject([{ id, attempts: 1 }]);
  expect(await claim(119)).toEqual([]);
  expect(await claim(120)).toMatchObject([{ id, attempts: 2 }]);
});

test("fifty claims race for a hundred mails: each is claimed once", async () => {
  const ids = await Promise.all(Array.from({ length: 100 }, () => enqueue()));
  const claimed = (await Promise.all(Array.from({ length: 50 }, () => claim(0, 120, 7)))).flat();
  const rest = await claim(0);
  expect([...claimed, ...rest].map((mail) => mail.id).sort()).toEqual(ids.sort());
});

test("claims are bounded, longest due first; mails of another version and too old ones stay", async () => {
  const second = await enqueue(newMail(), at(-10));
  const first = await enqueue(newMail(), at(-20));
  await enqueue(newMail(), at(-1_000));
  await enqueue({ ...newMail(), template: "a-mail-of-tomorrow" } as unknown as NewMail, at(-50));
  expect(await one(claim(0, 120, 1))).toMatchObject({ id: first });
  expect(await one(claim(0, 120, 9))).toMatchObject({ id: second });
  expect(await claim(0)).toEqual([]);
});

test("a mail that was sent is done: recipient and data are gone, and nothing brings it back", async () => {
  const mail = newMail();
  await enqueue(mail);
  const claimed = await one(claim(0));
  await markMailSent(database.sql, mail.id, at(1));
  const [sent] = await rows();
  expect(sent).toMatchObject({ sent_at: at(1), recipient: null, data: null, attempts: 1, last_error: null });

  await markMailSent(database.sql, mail.id, at(2));
  await postponeMail(database.sql, claimed, { attemptAt: at(3), reason: "ETIMEDOUT" });
  await giveUpMail(database.sql, claimed, { now: at(4), reason: "EENVELOPE 550 5.1.1" });
  await enqueue(mail, at(5));
  expect(await rows()).toEqual([sent]);
  expect(await claim(10_000)).toEqual([]);
});

test("a failure after the lease has passed on changes nothing; a success still counts", async () => {
  const id = await enqueue();
  const late = await one(claim(0));
  await one(claim(120));
  const before = await rows();
  await postponeMail(database.sql, late, { attemptAt: at(0), reason: "ETIMEDOUT" });
  await giveUpMail(database.sql, late, { now: at(121), reason: "EENVELOPE 550 5.1.1" });
  expect(await rows()).toEqual(before);
  await markMailSent(database.sql, late.id, at(121));
  expect(await rows()).toMatchObject([{ id, sent_at: at(121) }]);
});

test("a postponed mail is due when it says, and knows why", async () => {
  await enqueue();
  const mail = await one(claim(0));
  await postponeMail(database.sql, mail, { attemptAt: at(30), reason: "ECONNREFUSED" });
  expect(await rows()).toMatchObject([{ last_error: "ECONNREFUSED", sent_at: null }]);
  expect(await claim(29)).toEqual([]);
  expect(await claim(30)).toMatchObject([{ attempts: 2 }]);
});

test("an overdue mail is given up and erased, but not while it is being sent", async () => {
  const [young, old, busy] = [await enqueue(newMail(), at(1)), await enqueue(), await enqueue()];
  await database.ownerSql`update mail_outbox set next_attempt_at = ${at(200)} where id = ${busy}`;
  const overdue = { now: at(100), createdUntil: at(0), limit: 10 };
  expect(await giveUpOverdueMails(database.sql, overdue)).toEqual([
    { id: old, template: "refresh-reuse", attempts: 0, lastError: null },
  ]);
  expect(await giveUpOverdueMails(database.sql, overdue)).toEqual([]);
  expect((await claim(100)).map((mail) => mail.id)).toEqual([young]);
  expect(await rows()).toContainEqual(
    expect.objectContaining({ id: old, given_up_at: at(100), recipient: null, data: null }),
  );
});

test("finished mails are deleted in batches when they are old enough; waiting ones are not", async () => {
  for (let mail = 0; mail < 5; mail += 1) await markMailSent(database.sql, await enqueue(), at(1));
  const waiting = await enqueue();
  expect(await deleteDoneMails(database.sql, at(0), 10)).toBe(0);
  expect(await deleteDoneMails(database.sql, at(1), 3)).toBe(3);
  expect(await deleteDoneMails(database.sql, at(1), 3)).toBe(2);
  expect(await rows()).toMatchObject([{ id: waiting }]);
});

test("the oldest that waits is the oldest of those that are not done", async () => {
  expect(await oldestWaitingMail(database.sql)).toBeUndefined();
  const oldest = await enqueue(newMail(), at(-20));
  await enqueue(newMail(), at(-10));
  expect(await oldestWaitingMail(database.sql)).toEqual(at(-20));
  await markMailSent(database.sql, oldest, at(0));
  expect(await oldestWaitingMail(database.sql)).toEqual(at(-10));
});

test("the database refuses rows that the service would never write", async () => {
  const { ownerSql } = database;
  const insert = (change: Record<string, unknown>) => {
    const row = {
      id: uuidv7(),
      user_id: uuidv7(),
      template: "refresh-reuse",
      recipient: "anna@example.com",
      data: { ip: "" },
      created_at: at(0),
      next_attempt_at: at(0),
      ...change,
    };
    return ownerSql`insert into mail_outbox ${ownerSql(row)}`;
  };
  for (const change of [
    { template: "../etc/passwd" },
    { recipient: null },
    { recipient: `${"a".repeat(250)}@b.co` },
    { data: null },
    { data: [] },
    { data: { ip: "x".repeat(8_192) } },
    { sent_at: at(1) },
    { given_up_at: at(1) },
    { sent_at: at(1), given_up_at: at(1), recipient: null, data: null },
    { last_error: "x".repeat(65) },
    { attempts: -1 },
  ]) {
    await expect(insert(change), JSON.stringify(change)).rejects.toMatchObject({ code: "23514" });
  }
});

test("the service's role can change neither whose mail it is nor what its cause was", async () => {
  const { sql } = database;
  for (const statement of [
    sql`update mail_outbox set id = ${uuidv7()}`,
    sql`update mail_outbox set user_id = ${uuidv7()}`,
    sql`update mail_outbox set template = 'x'`,
    sql`update mail_outbox set created_at = now()`,
    sql`truncate mail_outbox`,
  ]) {
    await expect(statement).rejects.toMatchObject({ code: "42501" });
  }
});
