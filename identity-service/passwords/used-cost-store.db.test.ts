import { afterAll, beforeAll, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "../../tests/support/postgres.ts";
import { sampleUsedCosts } from "./used-cost-store.ts";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase("identity-service");
});
afterAll(() => database.drop());

const END = `$${"A".repeat(22)}$${"A".repeat(43)}`;

async function plant(count: number, costs: string | null): Promise<void> {
  const hash = costs === null ? null : `$argon2id$v=19$${costs}${END}`;
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
  const expected = [
    { memoryKib: 19_456, iterations: 2, parallelism: 1, count: 30 },
    { memoryKib: 47_104, iterations: 2, parallelism: 1, count: 5 },
    { memoryKib: 19_456, iterations: 3, parallelism: 1, count: 2 },
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
