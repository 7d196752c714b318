import { expect, test } from "vitest";
import type { Bucket } from "./bucket.ts";
import { overflowMs } from "./bucket.ts";
import { type BucketState, BucketTable } from "./bucket-table.ts";

const limit = { calls: 5, perSeconds: 60 };
const bucketOf = (name: string, kind = "own login address"): Bucket => ({
  kind,
  name,
  scope: "address",
  limit,
});

function takes(table: BucketTable, name: string, nowMs: number, kind?: string): boolean {
  const [debtMs = 0] = table.take([bucketOf(name, kind)], nowMs, 1);
  return overflowMs(limit, debtMs) === 0;
}

/** A full table, and the shared bucket of a newcomer. */
function fullTable(maxEntries: number) {
  const table = new BucketTable(maxEntries);
  for (let index = 0; index < maxEntries; index += 1) takes(table, `early${index}`, 0);
  const crowded = (name: string, nowMs = 0): BucketState => {
    const states: BucketState[] = [];
    table.take([bucketOf(name)], nowMs, 1, (state) => void states.push(state));
    return states[0] as BucketState;
  };
  return { table, crowded };
}

test("a million addresses: memory is bounded, who was refused stays refused, and the crowd is limited", {
  tags: "exhaustive",
}, () => {
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

test("a full table holds no more, and who comes then has a share of the crowd's limits", () => {
  const { table } = fullTable(3);
  expect(table.size).toBe(3);
  for (let call = 0; call < 5; call += 1) expect(takes(table, "late", 0)).toBe(true);
  expect(takes(table, "late", 0)).toBe(false);
  expect(table.size).toBe(4);
  // Callers from before keep their buckets.
  for (let call = 0; call < 4; call += 1) expect(takes(table, "early0", 0)).toBe(true);
  expect(takes(table, "early0", 0)).toBe(false);
});

test("in the crowd, calls of one kind are not counted as those of another", () => {
  const { table } = fullTable(1);
  while (takes(table, "late", 0));
  expect(takes(table, "late", 0, "own refresh address")).toBe(true);
});

test("the crowd is spread over 256 buckets, which name nobody", () => {
  const { table, crowded } = fullTable(1);
  const names = new Set<string>();
  for (let index = 0; index < 2_000; index += 1) {
    // One minute apart, so that there is always room. The existing entry is used again.
    takes(table, "early0", index * 60_000);
    names.add(crowded(`late${index}`, index * 60_000).name);
  }
  for (const name of names) expect(name).toMatch(/^crowd:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])$/);
  expect(names.size).toBeGreaterThan(200);
});

test("a sweep empties the crowd of what has run empty, to the millisecond, and of nothing else", () => {
  const { table, crowded } = fullTable(1);
  crowded("one");
  for (let call = 0; call < 2; call += 1) crowded("other");
  expect(table.size).toBe(3);
  table.sweep(11_999);
  expect(table.size).toBe(3);
  table.sweep(12_000);
  expect(table.size).toBe(1);
  table.sweep(24_000);
  expect(table.size).toBe(0);
});

test("a bucket of which the other gateways have not been told is kept until they have", () => {
  const table = new BucketTable(10);
  let state: BucketState | undefined;
  table.take([bucketOf("a")], 0, 1, (counted) => {
    state = counted;
  });
  if (state === undefined) throw new Error("nothing was counted");
  state.untold = 1;
  table.sweep(60_000);
  expect(table.size).toBe(1);
  state.untold = 0;
  // The first sweep reaches the end of the table.
  for (let sweep = 0; sweep < 2; sweep += 1) table.sweep(60_000);
  expect(table.size).toBe(0);
});

test("a dropped bucket begins anew, and one of the same name and another kind stays", () => {
  const table = new BucketTable(10);
  takes(table, "a", 0);
  while (takes(table, "a", 0, "own refresh address"));
  table.sweep(12_000);
  expect(table.size).toBe(1);
  expect(takes(table, "a", 12_000, "own refresh address")).toBe(true);
  expect(takes(table, "a", 12_000, "own refresh address")).toBe(false);
  for (let call = 0; call < 5; call += 1) expect(takes(table, "a", 12_000)).toBe(true);
  expect(takes(table, "a", 12_000)).toBe(false);
});
