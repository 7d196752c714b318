import { afterAll, beforeAll, expect, test } from "vitest";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { ANNA, startWithAnna } from "../testing/test-deps.ts";
import { lockAccount, lockAccountByEmail, lockAccountForMfa } from "./account-store.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
afterAll(() => database.drop());

test.each<[string, (tx: TransactionSql, userId: string) => ReturnType<typeof lockAccount>]>([
  ["lockAccount", lockAccount],
  ["lockAccountByEmail", (tx) => lockAccountByEmail(tx, ANNA.email)],
  ["lockAccountForMfa", lockAccountForMfa],
])(
  "%s that waited reads the account as its last holder left it, second factor included",
  async (_name, lock) => {
    const { userId } = await startWithAnna(database);
    const { waiting } = await transaction(database.ownerSql, async (tx) => {
      await lockAccount(tx, userId);
      const waiting = transaction(database.sql, (other) => lock(other, userId));
      await expect.poll(database.waitingForLocks, { interval: 5 }).toBe(1);
      await tx`update users set session_epoch = 7 where id = ${userId}`;
      await tx`
      insert into totp_credentials (user_id, secret_encrypted, key_id, created_at, confirmed_at)
      values (${userId}, ${Buffer.alloc(48)}, '0123456789abcdef', now(), now())`;
      return { waiting };
    });
    expect(await waiting).toMatchObject({ id: userId, sessionEpoch: 7, mfaEnabled: true });
  },
);
