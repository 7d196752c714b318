import { expect, test } from "vitest";
import { LADDER_MEMORY_MS, ladderMemoryMs, ladderWaitMs, shareOf, throttleLimits } from "./throttle.ts";

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
  expect(share.account).toMatchObject({ freeFailures: 2, maxFailures: 33 });
  const smallest = shareOf(limits, 1_000_000);
  expect(smallest.everything.budget).toBe(1);
  expect(smallest.calls.budget).toBe(1);
  expect(shareOf(limits, 1)).toEqual(limits);
});

test("however many replicas there are, two typos cost no wait, and a day of typos neither shuts an account nor closes a network", () => {
  const share = shareOf(limits, 1_000);
  const waits = [1, 2, 3, 24, 25].map((failures) => ladderWaitMs(share.account, failures));
  expect(waits).toEqual([0, 0, 30_000, 3_600_000, Number.POSITIVE_INFINITY]);
  expect(share.network.budget).toBe(25);
  expect(share.callsOfNetwork.budget).toBe(15);
});

test("a floor never gives more than the whole", () => {
  const strict = throttleLimits({ network: 5, everything: 50, callsOfNetwork: 3, calls: 10 });
  expect(shareOf(strict, 10).network.budget).toBe(5);
  expect(shareOf(strict, 10).callsOfNetwork.budget).toBe(3);
});

const DAY_MS = 24 * 3_600_000;

test.each([
  { failures: 1, days: 1 },
  { failures: 4, days: 1 },
  { failures: 5, days: 2 },
  { failures: 12, days: 3 },
  { failures: 99, days: 25 },
  { failures: 100, days: 30 },
])("a count of $failures failures is kept for $days days", ({ failures, days }) => {
  expect(ladderMemoryMs(limits.account, failures)).toBe(days * DAY_MS);
});

// Whoever pauses until the count is forgotten begins anew: that must not pay.
test("a guesser who pauses whenever it suits has four guesses a day at most", () => {
  const { account } = limits;
  for (let failures = 1; failures <= account.maxFailures; failures += 1) {
    const perDay = failures / (ladderMemoryMs(account, failures) / DAY_MS);
    expect(perDay).toBeLessThanOrEqual(4);
    expect(ladderMemoryMs(account, failures)).toBeLessThanOrEqual(LADDER_MEMORY_MS);
  }
});

test("a count outlives its wait", () => {
  const { accountAndNetwork } = limits;
  for (let failures = 1; failures < 100; failures += 1) {
    const waitMs = ladderWaitMs(accountAndNetwork, failures);
    expect(ladderMemoryMs(accountAndNetwork, failures)).toBeGreaterThanOrEqual(2 * waitMs);
  }
});
