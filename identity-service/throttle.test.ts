import { expect, test } from "vitest";
import { ladderWaitMs, shareOf, throttleLimits } from "./throttle.ts";

const limits = throttleLimits({ network: 100, everything: 50_000 });

// The 5th failure is the first that makes wait; the wait doubles from 30 s and stops at one hour; 100 is the end.
test.each([
  { failures: 0, expectedS: 0 },
  { failures: 4, expectedS: 0 },
  { failures: 5, expectedS: 30 },
  { failures: 6, expectedS: 60 },
  { failures: 11, expectedS: 1_920 },
  { failures: 12, expectedS: 3_600 },
  { failures: 99, expectedS: 3_600 },
  { failures: 100, expectedS: Number.POSITIVE_INFINITY },
  { failures: 101, expectedS: Number.POSITIVE_INFINITY },
])("$failures failures make an account wait $expectedS s", ({ failures, expectedS }) => {
  expect(ladderWaitMs(limits.account, failures) / 1_000).toBe(expectedS);
});

test("a replica's share adds up to no more than the whole, and is never nothing", () => {
  const share = shareOf(limits, 3);
  expect(share.network.budget).toBe(33);
  expect(share.everything.budget).toBe(16_666);
  expect(share.callsOfNetwork.budget).toBe(20);
  expect(share.account).toMatchObject({ freeFailures: 0, maxFailures: 33 });
  const smallest = shareOf(limits, 1_000);
  expect(smallest.network.budget).toBe(1);
  expect(smallest.calls.budget).toBe(20);
  expect(shareOf(limits, 1)).toEqual(limits);
});

test("however many replicas there are, one wrong password shuts no account for good", () => {
  const { account } = shareOf(limits, 1_000);
  expect([1, 4, 5].map((failures) => Number.isFinite(ladderWaitMs(account, failures)))).toEqual([
    true,
    true,
    false,
  ]);
});
