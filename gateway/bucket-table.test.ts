import { expect, test } from "vitest";
import type { Bucket } from "./bucket.ts";
import { overflowMs } from "./bucket.ts";
import { BucketTable } from "./bucket-table.ts";

const limit = { calls: 5, perSeconds: 60 };
const bucketOf = (name: string): Bucket => ({ kind: "own login address", name, scope: "address", limit });

function takes(table: BucketTable, name: string, nowMs: number): boolean {
  const [debtMs = 0] = table.take([bucketOf(name)], nowMs, 1);
  return overflowMs(limit, debtMs) === 0;
}

test("a million addresses: memory is bounded, who was refused stays refused, and the crowd is limited", () => {
  const table = new BucketTable(10_000);
  for (let call = 0; call < 5; call += 1) expect(takes(table, "attacker", 0)).toBe(true);
  expect(takes(table, "attacker", 0)).toBe(false);

  let admitted = 0;
  for (let index = 0; index < 1_000_000; index += 1) admitted += Number(takes(table, `n${index}`, 1));

  expect(table.size).toBeLessThanOrEqual(10_000 + 256);
  expect(takes(table, "attacker", 1)).toBe(false);
  // One call for each that has a bucket of its own, and the limit of each that the others share.
  expect(admitted).toBeLessThanOrEqual(10_000 + 256 * limit.calls);
  expect(admitted).toBeGreaterThan(10_000);
});

test("whoever comes when what filled the table has run empty has a bucket of its own again", () => {
  const table = new BucketTable(1_000);
  for (let index = 0; index < 100_000; index += 1) takes(table, `n${index}`, 0);
  const laterMs = 120_000;
  for (let call = 0; call < 5; call += 1) {
    for (let index = 0; index < 200; index += 1) expect(takes(table, `late${index}`, laterMs)).toBe(true);
  }
  expect(takes(table, "late7", laterMs)).toBe(false);
});

test("a sweep drops what has run empty and nothing else", () => {
  const table = new BucketTable(1_000);
  for (let index = 0; index < 1_000; index += 1) takes(table, `n${index}`, 0);
  while (takes(table, "n1", 11_000));
  table.sweep(59_000);
  expect(table.size).toBe(1);
  expect(takes(table, "n1", 11_000)).toBe(false);
});
