import { expect, test } from "vitest";
import { decide, limitOf, limitTimes, refund } from "./gcra.ts";

const tenAMinute = limitOf(10, 60_000);
const NOW_MS = 1.8e12;

test("a call takes its part of the window", () => {
  expect(tenAMinute).toEqual({ burst: 10, emissionIntervalMs: 6_000, burstOffsetMs: 60_000 });
  expect(limitOf(3, 1_000).emissionIntervalMs).toBeCloseTo(333.333, 3);
});

test("a wider network has a multiple of the limit in the same time", () => {
  expect(limitTimes(tenAMinute, 16)).toEqual(limitOf(160, 60_000));
  expect(limitTimes(tenAMinute, 1)).toEqual(tenAMinute);
});

test.each([
  { name: "without a TAT", tatMs: 0 },
  { name: "whose TAT has passed", tatMs: NOW_MS - 1 },
  { name: "whose TAT is now", tatMs: NOW_MS },
])("a bucket $name is empty: one call leaves nine", ({ tatMs }) => {
  expect(decide(tenAMinute, tatMs, NOW_MS)).toEqual({
    isAllowed: true,
    remaining: 9,
    retryInMs: 0,
    resetInMs: 6_000,
  });
});

// The 10th call moves the TAT to the end of the window. One millisecond more, and it has no room.
test.each([
  { aheadMs: 53_999, isAllowed: true, remaining: 0, retryInMs: 0, resetInMs: 59_999 },
  { aheadMs: 54_000, isAllowed: true, remaining: 0, retryInMs: 0, resetInMs: 60_000 },
  { aheadMs: 54_001, isAllowed: false, remaining: 0, retryInMs: 1, resetInMs: 54_001 },
  { aheadMs: 60_000, isAllowed: false, remaining: 0, retryInMs: 6_000, resetInMs: 60_000 },
  { aheadMs: 48_000, isAllowed: true, remaining: 1, retryInMs: 0, resetInMs: 54_000 },
  { aheadMs: 48_001, isAllowed: true, remaining: 0, retryInMs: 0, resetInMs: 54_001 },
  // Of other gateways too: more than a window was let through.
  { aheadMs: 90_000, isAllowed: false, remaining: 0, retryInMs: 36_000, resetInMs: 90_000 },
])("with the TAT $aheadMs ms ahead a call is allowed: $isAllowed", ({ aheadMs, ...expected }) => {
  expect(decide(tenAMinute, NOW_MS + aheadMs, NOW_MS)).toEqual(expected);
});

test("a rounded decimal does not refuse the last call of a burst, a hundredth of a millisecond does", () => {
  expect(decide(tenAMinute, 54_000.001, 0)).toMatchObject({ isAllowed: true, remaining: 0, retryInMs: 0 });
  const { isAllowed, retryInMs } = decide(tenAMinute, 54_000.01, 0);
  expect([isAllowed, retryInMs]).toEqual([false, expect.closeTo(0.01, 6)]);
});

test("in the long run there is one call in each emission interval, whenever calls come", () => {
  let [tatMs, allowed] = [0, 0];
  // Calls come 70 ms apart for an hour.
  for (let nowMs = 0; nowMs < 3_600_000; nowMs += 70) {
    const { isAllowed, resetInMs } = decide(tenAMinute, tatMs, nowMs);
    if (isAllowed) allowed += 1;
    tatMs = nowMs + resetInMs;
  }
  expect(allowed).toBe(10 + 600 - 1);
});

test("a refund moves the TAT back by one interval", () => {
  const { resetInMs } = decide(tenAMinute, NOW_MS + 20_000, NOW_MS);
  expect(refund(tenAMinute, NOW_MS + resetInMs)).toBe(NOW_MS + 20_000);
});
