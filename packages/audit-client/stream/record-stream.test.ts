import { expect, test } from "vitest";
import { retryDelayMs } from "./record-stream.ts";

// After a quick first retry the delay doubles from 50 ms to half a second. Half of it is random.
test.each([
  { failures: 1, leastMs: 0, mostMs: 20 },
  { failures: 2, leastMs: 25, mostMs: 50 },
  { failures: 3, leastMs: 50, mostMs: 100 },
  { failures: 5, leastMs: 200, mostMs: 400 },
  { failures: 6, leastMs: 250, mostMs: 500 },
  { failures: 5_000, leastMs: 250, mostMs: 500 },
])("after $failures failures: $leastMs to $mostMs ms", ({ failures, leastMs, mostMs }) => {
  expect(retryDelayMs(failures, 0)).toBe(leastMs);
  expect(retryDelayMs(failures, 1)).toBe(mostMs);
});
