import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { ANNA, startWithAnna, type TestDeps } from "../testing/test-deps.ts";
import { describeUser } from "./describe-user.ts";

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

const describe = async () => (await describeUser({ ...deps, trustedDeviceDays: 30 }, userId)).details;

test("a new user has a mail that waits, and nothing else", async () => {
  expect(await describe()).toEqual({
    lockedUntil: undefined,
    totpSince: undefined,
    passkeys: [],
    recoveryCodesLeft: 0,
    providers: [],
    trustedDevices: 0,
    mails: [
      { template: "verify-email", createdAt: deps.now(), state: "waiting", endedAt: null, attempts: 0 },
    ],
  });
});

test("factors, providers and mails are described without secrets, addresses and content", async () => {
  const at = new Date("2031-01-01T00:00:00Z");
  const { ownerSql } = database;
  await ownerSql`
    insert into totp_credentials values (${userId}, ${Buffer.alloc(48)}, '0123456789abcdef', ${at}, ${at}, 0)`;
  await ownerSql`
    insert into passkeys (id, user_id, credential_id, public_key, sign_count, transports, is_backup_eligible, is_backed_up, name, created_at)
    values (${deps.newId()}, ${userId}, ${Buffer.alloc(16, 7)}, ${Buffer.alloc(32, 9)}, 0, '{}', true, true, 'Phone', ${at})`;
  await ownerSql`
    insert into external_identities (issuer, subject, user_id, provider, email, linked_at)
    values ('https://issuer', 'subject', ${userId}, 'demo', 'other@example.com', ${at})`;
  await ownerSql`update mail_outbox set sent_at = ${at}, recipient = null, data = null, attempts = 2`;
  for (const [attempts, endedAt] of [
    [5, new Date("2031-01-01T03:00:00Z")],
    [0, new Date("2031-01-01T02:00:00Z")],
  ] as const) {
    await ownerSql`
      insert into mail_outbox (id, user_id, template, created_at, next_attempt_at, attempts, given_up_at)
      values (${deps.newId()}, ${userId}, 'reset-password', '2031-01-01T02:00:00Z', ${at}, ${attempts}, ${endedAt})`;
  }
  const described = await describe();
  expect(described).toMatchObject({
    totpSince: at,
    passkeys: [{ name: "Phone", createdAt: at, lastUsedAt: null }],
    providers: [{ provider: "demo", linkedAt: at }],
  });
  expect(described.mails.map(({ template, state, attempts }) => [template, state, attempts])).toEqual([
    ["verify-email", "sent", 2],
    ["reset-password", "withheld", 0],
    ["reset-password", "given_up", 5],
  ]);
  await expect(describeUser(deps, deps.newId())).rejects.toMatchObject({ code: "not_found" });
});

test("a lock by strangers is reported, with its end, and gone after an unlock", async () => {
  for (let failures = 0; failures < 5; failures += 1)
    await deps.throttle.take({ account: ANNA.email, clientIp: `192.0.2.${failures}` });
  expect((await describe()).lockedUntil).toEqual(new Date(deps.now().getTime() + 30_000));
  await deps.throttle.clear(ANNA.email);
  expect((await describe()).lockedUntil).toBeUndefined();
});
