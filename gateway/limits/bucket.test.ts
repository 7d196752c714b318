import { expect, test } from "vitest";
import { decide } from "#rate-limit/gcra.ts";
import { type Bucket, limitFrom, sharesOf, verdictOf } from "./bucket.ts";

const minute = (calls: number) => limitFrom({ calls, perSeconds: 60 });
const own = (name: string, calls: number): Bucket => ({
  kind: "own login address",
  name,
  scope: "address",
  limit: minute(calls),
});
/** @param aheadMs how far the TAT of each bucket is ahead of now before the call. */
const verdict = (buckets: Bucket[], aheadMs: number[]) =>
  verdictOf(
    buckets,
    buckets.map(({ limit }, index) => decide(limit, aheadMs[index] ?? 0, 0)),
  );

test("a call fills its part of the window, of a replica's share, and a share is one call at least", () => {
  const intervalMs = (calls: number, replicas: number) =>
    sharesOf([own("a", calls)], replicas)[0]?.limit.emissionIntervalMs;
  expect(intervalMs(10, 1)).toBe(6_000);
  expect(intervalMs(10, 3)).toBe(20_000);
  expect(intervalMs(2, 3)).toBe(60_000);
  const [share] = sharesOf([{ ...own("a", 10), exemptNetwork: "192.0.2.1" }], 2);
  expect(share).toEqual({ ...own("a", 5), exemptNetwork: "192.0.2.1" });
});

test.each([
  { first: "wide", second: "narrow" },
  { first: "narrow", second: "wide" },
] as const)(
  "of the $first and the $second bucket the caller learns of the one with the least room",
  (order) => {
    const buckets = { wide: own("wide", 60), narrow: own("narrow", 4) };
    const names = [order.first, order.second];
    const reported = verdict(
      names.map((name) => buckets[name]),
      [0, 0],
    );
    expect(reported).toEqual({ waitMs: 0, own: { limit: 4, remaining: 3, resetS: 15 } });
  },
);

test("of two buckets with the same room the caller learns of the first, its smallest network", () => {
  const { own: reported } = verdict([own("/64", 4), own("/56", 16)], [30_000, 52_500]);
  expect(reported).toEqual({ limit: 4, remaining: 1, resetS: 45 });
});

test("a full bucket has no room, and the longest wait is returned", () => {
  const buckets = [own("a", 4), own("b", 4), own("c", 4)];
  expect(verdict(buckets, [46_000, 60_000, 47_000])).toEqual({
    refusedBy: buckets[1],
    waitMs: 15_000,
    own: { limit: 4, remaining: 0, resetS: 46 },
  });
});
