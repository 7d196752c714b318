import { describe, expect, test } from "vitest";
import { limitOf } from "#rate-limit/gcra.ts";
import {
  CALLS,
  CALLS_OF_NETWORK,
  clearGuesses,
  forgetGuesses,
  LADDER_MEMORY_MS,
  ladderMemoryMs,
  ladderWaitMs,
  refusalOf,
  shareOf,
  throttleLimits,
  tooManyRequests,
} from "./throttle.ts";

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
  expect(share.network.burst).toBe(33);
  expect(share.everything.burst).toBe(16_666);
  expect(share.callsOfNetwork.burst).toBe(20);
  expect(share.account).toMatchObject({ freeFailures: 2, maxFailures: 33 });
  const smallest = shareOf(limits, 1_000_000);
  expect(smallest.everything.burst).toBe(1);
  expect(smallest.calls.burst).toBe(1);
  expect(shareOf(limits, 1)).toEqual(limits);
});

test("however many replicas there are, two typos cost no wait, and a day of typos neither shuts an account nor closes a network", () => {
  const share = shareOf(limits, 1_000);
  const waits = [1, 2, 3, 24, 25].map((failures) => ladderWaitMs(share.account, failures));
  expect(waits).toEqual([0, 0, 30_000, 3_600_000, Number.POSITIVE_INFINITY]);
  expect(share.network.burst).toBe(25);
  expect(share.callsOfNetwork.burst).toBe(15);
});

test("a floor never gives more than the whole", () => {
  const strict = throttleLimits({ network: 5, everything: 50, callsOfNetwork: 3, calls: 10 });
  expect(shareOf(strict, 10).network.burst).toBe(5);
  expect(shareOf(strict, 10).callsOfNetwork.burst).toBe(3);
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
test("an attacker who pauses at will has at most four guesses a day", () => {
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

test("budgets are counted in a quarter of an hour; those of calls are ours unless they are given", () => {
  const windowMs = 15 * 60_000;
  expect(limits).toMatchObject({
    network: limitOf(100, windowMs),
    everything: limitOf(50_000, windowMs),
    callsOfNetwork: limitOf(CALLS_OF_NETWORK, windowMs),
    calls: limitOf(CALLS, windowMs),
  });
  const given = throttleLimits({ network: 1, everything: 2, callsOfNetwork: 3, calls: 4 });
  expect([given.callsOfNetwork.burst, given.calls.burst]).toEqual([3, 4]);
});

test("a network waits up to a day and a device up to an hour, and neither is ever shut", () => {
  expect(ladderWaitMs(limits.accountAndNetwork, 10_000)).toBe(DAY_MS);
  expect(ladderWaitMs(limits.accountAndDevice, 10_000)).toBe(3_600_000);
});

test("the count of a ladder that makes wait from the first failure on is kept for as many days as it has failures", () => {
  const strict = { freeFailures: 0, maxFailures: 100, firstWaitMs: 1_000, maxWaitMs: 1_000 };
  expect([1, 2, 29, 99].map((failures) => ladderMemoryMs(strict, failures) / DAY_MS)).toEqual([1, 2, 29, 30]);
  const slow = { freeFailures: 4, maxFailures: 100, firstWaitMs: 2 * DAY_MS, maxWaitMs: 2 * DAY_MS };
  expect(ladderMemoryMs(slow, 5)).toBe(4 * DAY_MS);
});

describe("a refusal", () => {
  const budget = (burst: number, isNetwork = false) => ({ limit: limitOf(burst, 60_000), isNetwork });
  const waits = (...waitsMs: number[]) => waitsMs.map((retryInMs) => ({ retryInMs }));

  test("has the longest wait of the budgets that are used up, in whole milliseconds", () => {
    const budgets = [budget(1, true), budget(2, true), budget(3)];
    expect(refusalOf(budgets, waits(10, 30.2, 20))).toEqual({ kind: "refused", retryAfterMs: 31, limit: 2 });
    expect(refusalOf(budgets, waits(10, 0, 20))).toEqual({ kind: "refused", retryAfterMs: 20 });
    expect(refusalOf(budgets, waits(10, 10, 10))).toEqual({ kind: "refused", retryAfterMs: 10, limit: 1 });
    expect(refusalOf(budgets, waits(0, 0, 0))).toBeUndefined();
    expect(refusalOf([], [])).toBeUndefined();
  });

  test("is reported with its limit if it has one", () => {
    const refusal = { kind: "refused", retryAfterMs: 20 } as const;
    expect(tooManyRequests(refusal)).toMatchObject({ code: "too_many_requests", retryAfterMs: 20 });
    expect(tooManyRequests(refusal).limit).toBeUndefined();
    expect(tooManyRequests({ ...refusal, limit: 3 }).limit).toBe(3);
  });
});

test("guesses at an account are cleared and forgotten for its login and for its sessions", async () => {
  const calls: string[] = [];
  const throttle = {
    clear: async (account: string) => void calls.push(`clear ${account}`),
    forget: async (account: string) => void calls.push(`forget ${account}`),
  };
  const account = { id: "7", email: "ada@example.com" };
  await clearGuesses(throttle, account);
  await forgetGuesses(throttle, account);
  expect(calls).toEqual([
    "clear ada@example.com",
    "clear reauthentication 7",
    "forget ada@example.com",
    "forget reauthentication 7",
  ]);
});
