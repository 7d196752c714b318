import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { sampleUsedCosts } from "./used-cost-store.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
afterAll(() => database.drop());

const END = `$${"A".repeat(22)}$${"A".repeat(43)}`;

async function plant(count: number, costs: string | null): Promise<void> {
  const hash = costs === null || !/^m=|^t=/.test(costs) ? costs : `$argon2id$v=19$${costs}${END}`;
  await database.ownerSql`
    insert into users (id, email, first_name, last_name, role, status, password_hash, email_verified, created_at, updated_at)
    select id, id || '@example.com', 'A', 'B', 'USER', 'active', ${hash}, true, now(), now()
    from (select gen_random_uuid() as id from generate_series(1, ${count})) as ids`;
}

test("the costs of stored hashes are counted in any spelling, except too high ones and accounts without a password", async () => {
  expect(await sampleUsedCosts(database.sql)).toEqual([]);
  await plant(30, "m=19456,t=2,p=1");
  await plant(5, "m=47104,t=2,p=1,keyid=AAAAAAAAAAA");
  await plant(2, "t=3,m=19456,p=1");
  await plant(4, null);
  await plant(1, "m=999999,t=2,p=1");
  await plant(8, `$2b$10$${"a".repeat(22)}${"b".repeat(31)}`);
  await plant(7, `$pbkdf2-sha512$i=210000${END}`);
  await plant(6, `$scrypt$ln=14,r=8,p=1${END}`);
  await plant(3, `$2b$31$${"a".repeat(22)}${"b".repeat(31)}`);
  const expected = [
    { cost: "$argon2id$v=19$m=19456,t=2,p=1", count: 30 },
    { cost: "$2b$10", count: 8 },
    { cost: "$pbkdf2-sha512$i=210000", count: 7 },
    { cost: "$scrypt$ln=14,r=8,p=1", count: 6 },
    { cost: "$argon2id$v=19$m=47104,t=2,p=1", count: 5 },
    { cost: "$argon2id$v=19$m=19456,t=3,p=1", count: 2 },
  ];
  expect(await sampleUsedCosts(database.sql)).toEqual(expected);
});

test("of many accounts a part is looked at", async () => {
  await plant(60_000, "m=19456,t=2,p=1");
  await database.ownerSql`analyze users`;
  const [most] = await sampleUsedCosts(database.sql);
  expect(most?.count).toBeGreaterThan(1_000);
  expect(most?.count).toBeLessThan(40_000);
});
