import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { withCallDeadline } from "#kit/values/call-deadline.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { countUsers } from "./count-users.ts";
import { selectUserFigures } from "./user-admin-store.ts";

const DAY_MS = 24 * 3_600_000;
/** A busy machine counts slowly. */
const LONG_MS = 60_000;

let database: TestDatabase;
let deps: TestDeps;
let userId: string;
let nowMs: number;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
beforeEach(async () => {
  ({ deps, userId } = await startWithAnna(database));
  nowMs = Date.now();
});
afterAll(() => database.drop());

const now = () => new Date(nowMs);
const hex = (ms: number) => ms.toString(16).padStart(12, "0");
let planted = 0;

/** @returns the id of a user who was made so many days ago. */
async function plantUser(daysAgo: number): Promise<string> {
  planted += 1;
  const time = hex(nowMs - daysAgo * DAY_MS);
  const id = `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${String(planted).padStart(12, "0")}`;
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, email_verified, created_at, updated_at)
    values (${id}, ${`user${planted}@example.com`}, 'U', '', 'USER', 'active', true, now(), now())`;
  return id;
}

async function plantNetwork(user: string, daysAgo: number): Promise<void> {
  planted += 1;
  const digest = Buffer.alloc(16, planted);
  await database.ownerSql`
    insert into known_networks values (${digest}, ${digest}, ${user}, 0, now() - make_interval(days => ${daysAgo}))`;
}

async function plantPasskey(user: string): Promise<void> {
  planted += 1;
  await database.ownerSql`
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible, is_backed_up, name, created_at)
    values (${deps.newId()}, ${user}, ${Buffer.alloc(16, planted)}, ${Buffer.alloc(32)}, 0, '{}', true, true, 'Phone', now())`;
}

async function plantTotp(user: string, isConfirmed: boolean): Promise<void> {
  await database.ownerSql`
    insert into totp_credentials values
      (${user}, ${Buffer.alloc(48)}, '0123456789abcdef', now(), case when ${isConfirmed} then now() end, 0)`;
}

const numbersOf = (figures: object) =>
  Object.fromEntries(
    Object.entries(figures).map(([name, value]) => [name, (value as { count?: number }).count]),
  );

test("each user counts once, however many networks, factors and passkeys they have", async () => {
  const { ownerSql } = database;
  await ownerSql`delete from users where id = ${userId}`;
  await ownerSql`delete from mail_outbox`;
  const [today, , month, old] = [
    await plantUser(0),
    await plantUser(6),
    await plantUser(8),
    await plantUser(31),
  ];
  for (const daysAgo of [0, 3]) await plantNetwork(today, daysAgo);
  await plantNetwork(month, 29);
  await plantNetwork(old, 31);
  for (const user of [today, today, month]) await plantPasskey(user);
  await plantTotp(today, true);
  await plantTotp(old, true);
  await plantTotp(month, false);
  const insert = (attempts: number, minutes: number | null, sent: Date | null = null) => ownerSql`
    insert into mail_outbox (id, user_id, template, recipient, data, created_at, next_attempt_at, attempts, given_up_at, sent_at)
    select ${deps.newId()}, ${today}, 'verify-email', case when done then null else 'a@example.com' end,
      case when done then null else '{}'::jsonb end, at, at, ${attempts}, at + make_interval(mins => ${minutes}), ${sent}
    from (select now() - interval '1 day' as at, ${minutes !== null || sent !== null}::boolean as done) as mail`;
  await insert(0, null);
  await insert(2, null);
  await insert(3, 60);
  await insert(1, null, new Date());
  // Withheld by a limit, and given up long ago.
  await insert(0, 0);
  await insert(3, -60 * 24 * 7);
  const figures = await countUsers({ sql: deps.sql, now }, {}, LONG_MS);
  expect(numbersOf(figures)).toEqual({
    users: 4,
    newInWeek: 2,
    active: 2,
    withSecondFactor: 3,
    withPasskey: 2,
    mailsWaiting: 2,
    mailsFailed: 1,
    countedAt: undefined,
  });
  expect(figures.countedAt).toEqual(now());
});

test("they are counted once for all who ask within a minute", async () => {
  const kept = {};
  const read = () => countUsers({ sql: deps.sql, now }, kept, LONG_MS);
  const [first, same] = await Promise.all([read(), read()]);
  await plantUser(0);
  nowMs += 59_999;
  expect(await read()).toBe(first);
  expect(same).toBe(first);
  nowMs += 1;
  expect((await read()).users.count).toBe(first.users.count + 1);
});

test("they are counted also for those who still wait when whoever asked first has gone", async () => {
  const kept = {};
  const first = withCallDeadline(
    Date.now() + 60_000,
    () => countUsers(deps, kept, LONG_MS),
    AbortSignal.abort(),
  );
  expect(await countUsers(deps, kept, LONG_MS)).toMatchObject({ users: { count: 1 } });
  await first;
});

test("figures stay, with their time, while the database does not answer; without any it is an outage", async () => {
  const { sql } = deps;
  let isAway = false;
  const away = new Proxy(sql, {
    apply: (target, self, args) =>
      isAway ? sql`select pg_sleep(0) from gone` : Reflect.apply(target, self, args),
  });
  const kept = {};
  const read = () => countUsers({ sql: away, now }, kept, LONG_MS);
  isAway = true;
  await expect(read()).rejects.toThrow("gone");
  isAway = false;
  const figures = await read();
  isAway = true;
  nowMs += DAY_MS;
  expect(await read()).toBe(figures);
});

test("what takes too long to count is estimated, and says so", async () => {
  const { ownerSql } = database;
  await plantNetwork(userId, 0);
  await ownerSql`alter table known_networks rename to networks_at_hand`;
  try {
    // Each row takes longer than a statement may.
    await ownerSql`create view known_networks as select * from networks_at_hand where pg_sleep(60) is not null`;
    await ownerSql`grant select on known_networks to gatehouse_identity`;
    const figures = await selectUserFigures(deps.sql, now());
    expect(figures.active).toEqual({ count: expect.any(Number), isEstimate: true });
    expect(figures.users).toEqual({ count: 1, isEstimate: false });
  } finally {
    await ownerSql`drop view known_networks`;
    await ownerSql`alter table networks_at_hand rename to known_networks`;
  }
});
