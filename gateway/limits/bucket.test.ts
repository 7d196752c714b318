import { expect, test } from "vitest";
import { type Bucket, intervalMs, overflowMs, verdictOf } from "./bucket.ts";

const minute = (calls: number) => ({ calls, perSeconds: 60 });
const own = (name: string, calls: number): Bucket => ({
  kind: "own login address",
  name,
  scope: "address",
  limit: minute(calls),
});

test("a call fills its part of the window, of a replica's share, and a share is one call at least", () => {
  expect(intervalMs(minute(10), 1)).toBe(6_000);
  expect(intervalMs(minute(10), 3)).toBe(20_000);
  expect(intervalMs(minute(2), 3)).toBe(60_000);
});

test("a bucket is over its window by what does not fit, and not by a rounded decimal", () => {
  expect(overflowMs(minute(10), 60_000)).toBe(0);
  expect(overflowMs(minute(10), 60_000.001)).toBe(0);
  expect(overflowMs(minute(10), 60_000.5)).toBe(0.5);
});

test.each([
  { first: "wide", second: "narrow" },
  { first: "narrow", second: "wide" },
] as const)(
  "of the $first and the $second bucket the caller learns of the one with the least room",
  (order) => {
    const buckets = { wide: own("wide", 60), narrow: own("narrow", 4) };
    const debtsMs = { wide: 1_000, narrow: 15_000 };
    const names = [order.first, order.second];
    const verdict = verdictOf(
      names.map((name) => buckets[name]),
      names.map((name) => debtsMs[name]),
      1,
    );
    expect(verdict).toEqual({ waitMs: 0, own: { limit: 4, remaining: 3, resetS: 15 } });
  },
);

test("of two buckets with the same room the caller learns of the first, its smallest network", () => {
  const { own: told } = verdictOf([own("/64", 4), own("/56", 16)], [45_000, 56_250], 1);
  expect(told).toEqual({ limit: 4, remaining: 1, resetS: 45 });
});

test("a bucket that is over its window has no room left, and the longest wait is told", () => {
  const buckets = [own("a", 4), own("b", 4), own("c", 4)];
  const verdict = verdictOf(buckets, [61_000, 75_000, 62_000], 1);
  expect(verdict).toEqual({
    refusedBy: buckets[1],
    waitMs: 15_000,
    own: { limit: 4, remaining: 0, resetS: 61 },
  });
});
