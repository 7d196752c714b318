import { expect, test } from "vitest";
import { limitOf } from "./gcra.ts";
import { type Entry, MemorySource } from "./memory-source.ts";
import { testSourceContract } from "./source.contract.ts";

testSourceContract("buckets in memory", async () => {
  const source = new MemorySource();
  let nowMs = 1.8e12;
  return {
    spend: async (buckets) => source.spend(buckets, nowMs),
    refund: async (buckets) => source.refund(buckets),
    pass: (ms) => {
      nowMs += ms;
    },
  };
});

const limit = limitOf(5, 60_000);
const bucketOf = (name: string, kind = "own login address") => ({ kind, name, limit });

function takes(source: MemorySource, name: string, nowMs: number, kind?: string): boolean {
  return source.spend([bucketOf(name, kind)], nowMs)[0]?.isAllowed === true;
}

/** A full table, and the shared bucket of a newcomer. */
function fullTable(maxEntries: number) {
  const source = new MemorySource(maxEntries);
  for (let index = 0; index < maxEntries; index += 1) takes(source, `early${index}`, 0);
  const overflowing = (name: string, nowMs = 0): Entry => {
    const entries: Entry[] = [];
    source.spend([bucketOf(name)], nowMs, (entry) => void entries.push(entry));
    return entries[0] as Entry;
  };
  return { source, overflowing };
}

test("a million addresses: memory is bounded, refused callers stay refused, and new ones are limited together", {
  tags: "exhaustive",
}, () => {
  const source = new MemorySource(10_000);
  for (let call = 0; call < 5; call += 1) expect(takes(source, "attacker", 0)).toBe(true);
  expect(takes(source, "attacker", 0)).toBe(false);

  let admitted = 0;
  for (let index = 0; index < 1_000_000; index += 1) admitted += Number(takes(source, `n${index}`, 1));

  expect(source.size).toBeLessThanOrEqual(10_000 + 256);
  expect(takes(source, "attacker", 1)).toBe(false);
  // One call for each that has a bucket of its own, and the limit of each that the others share.
  expect(admitted).toBeLessThanOrEqual(10_000 + 256 * limit.burst);
  expect(admitted).toBeGreaterThan(10_000);
});

test("after the full table has emptied, new callers have their own buckets again", () => {
  const source = new MemorySource(1_000);
  for (let index = 0; index < 100_000; index += 1) takes(source, `n${index}`, 0);
  const laterMs = 120_000;
  for (let call = 0; call < 5; call += 1) {
    for (let index = 0; index < 200; index += 1) expect(takes(source, `late${index}`, laterMs)).toBe(true);
  }
  expect(takes(source, "late7", laterMs)).toBe(false);
});

test("a sweep drops only empty buckets", () => {
  const source = new MemorySource(1_000);
  for (let index = 0; index < 1_000; index += 1) takes(source, `n${index}`, 0);
  while (takes(source, "n1", 11_000));
  source.sweep(59_000);
  expect(source.size).toBe(1);
  expect(takes(source, "n1", 11_000)).toBe(false);
});

test("a full table does not grow, and new callers share buckets", () => {
  const { source } = fullTable(3);
  expect(source.size).toBe(3);
  for (let call = 0; call < 5; call += 1) expect(takes(source, "late", 0)).toBe(true);
  expect(takes(source, "late", 0)).toBe(false);
  expect(source.size).toBe(4);
  // Callers from before keep their buckets.
  for (let call = 0; call < 4; call += 1) expect(takes(source, "early0", 0)).toBe(true);
  expect(takes(source, "early0", 0)).toBe(false);
});

test("in the shared buckets, calls of one kind are not counted as those of another", () => {
  const { source } = fullTable(1);
  while (takes(source, "late", 0));
  expect(takes(source, "late", 0, "own refresh address")).toBe(true);
});

test("new callers are spread over 256 buckets whose names identify no caller", () => {
  const { source, overflowing } = fullTable(1);
  const names = new Set<string>();
  for (let index = 0; index < 2_000; index += 1) {
    // One minute apart, so that there is always room. The existing entry is used again.
    takes(source, "early0", index * 60_000);
    names.add(overflowing(`late${index}`, index * 60_000).name);
  }
  for (const name of names) expect(name).toMatch(/^overflow:(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])$/);
  expect(names.size).toBeGreaterThan(200);
});

test("a sweep drops a shared bucket only once it is empty, to the millisecond", () => {
  const { source, overflowing } = fullTable(1);
  overflowing("one");
  for (let call = 0; call < 2; call += 1) overflowing("other");
  expect(source.size).toBe(3);
  source.sweep(11_999);
  expect(source.size).toBe(3);
  source.sweep(12_000);
  expect(source.size).toBe(1);
  source.sweep(24_000);
  expect(source.size).toBe(0);
});

test("a bucket with something unreported is kept until it is reported", () => {
  const source = new MemorySource(10);
  let counted: Entry | undefined;
  source.spend([bucketOf("a")], 0, (entry) => {
    counted = entry;
  });
  if (counted === undefined) throw new Error("nothing was counted");
  counted.unreportedMs = 1;
  source.sweep(60_000);
  expect(source.size).toBe(1);
  counted.unreportedMs = 0;
  // The first sweep reaches the end of the table.
  for (let sweep = 0; sweep < 2; sweep += 1) source.sweep(60_000);
  expect(source.size).toBe(0);
});

test("a dropped bucket starts empty, and one of another kind with the same name stays", () => {
  const source = new MemorySource(10);
  takes(source, "a", 0);
  while (takes(source, "a", 0, "own refresh address"));
  source.sweep(12_000);
  expect(source.size).toBe(1);
  expect(takes(source, "a", 12_000, "own refresh address")).toBe(true);
  expect(takes(source, "a", 12_000, "own refresh address")).toBe(false);
  for (let call = 0; call < 5; call += 1) expect(takes(source, "a", 12_000)).toBe(true);
  expect(takes(source, "a", 12_000)).toBe(false);
});

test("onCounted is not called for the buckets of a refused call", () => {
  const source = new MemorySource();
  const evicted: string[] = [];
  const spend = (...names: string[]) =>
    source.spend(
      names.map((name) => bucketOf(name)),
      0,
      (entry, { name }) => void evicted.push(`${entry.kind} ${entry.name} for ${name}`),
    );
  spend("a", "b");
  for (let call = 0; call < 4; call += 1) spend("b");
  evicted.length = 0;
  expect(spend("a", "b").map(({ isAllowed }) => isAllowed)).toEqual([true, false]);
  expect(evicted).toEqual([]);
  spend("a");
  expect(evicted).toEqual(["own login address a for a"]);
});

test("a call of a shared bucket is taken back from it", () => {
  const { source } = fullTable(1);
  while (takes(source, "late", 0));
  source.refund([bucketOf("late")]);
  expect(takes(source, "late", 0)).toBe(true);
  expect(takes(source, "late", 0)).toBe(false);
});

test("clear() empties all buckets", () => {
  const { source } = fullTable(1);
  takes(source, "late", 0);
  while (takes(source, "early0", 0));
  expect(source.size).toBe(2);
  source.clear();
  expect(source.size).toBe(0);
  expect(takes(source, "early0", 0)).toBe(true);
});
