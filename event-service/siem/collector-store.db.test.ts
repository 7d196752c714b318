import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createTestDatabase, type TestDatabase } from "#tests/support/database/postgres.ts";
import { claimCollector, releaseCollector, renewCollector, savePlaces } from "./collector-store.ts";

let database: TestDatabase;
beforeEach(async () => {
  database = await createTestDatabase("event-service");
});
afterEach(() => database.drop());

const leaseOf = () => ({ name: "otlp" as const, holder: randomUUID(), leaseMs: 100_000 });
const end = () => database.ownerSql`update siem_collectors set leased_until = now()`;

test("a lease is renewed by its holder alone, and not when it has ended", async () => {
  const { sql } = database;
  const [one, two] = [leaseOf(), leaseOf()];
  expect(await claimCollector(sql, one)).toEqual({ places: {}, failingSince: null });
  expect(await claimCollector(sql, two)).toBeUndefined();
  expect([await renewCollector(sql, one), await renewCollector(sql, two)]).toEqual([true, false]);
  await end();
  expect([await renewCollector(sql, one), await savePlaces(sql, one, { 0: 1 })]).toEqual([false, false]);
  expect(await claimCollector(sql, two)).toEqual({ places: {}, failingSince: null });
  expect([await renewCollector(sql, one), await savePlaces(sql, one, { 0: 1 })]).toEqual([false, false]);
  await releaseCollector(sql, one);
  expect(await renewCollector(sql, two)).toBe(true);
});
