import { expect, test } from "vitest";
import { mailBackOffMs } from "./mail-worker.ts";

// Doubles from 30 s and stops at one hour; the spread is a quarter on top.
test.each([
  { attempts: 1, leastS: 30, mostS: 37.5 },
  { attempts: 2, leastS: 60, mostS: 75 },
  { attempts: 7, leastS: 1_920, mostS: 2_400 },
  { attempts: 8, leastS: 2_880, mostS: 3_600 },
  { attempts: 5_000, leastS: 2_880, mostS: 3_600 },
])("after $attempts attempts the pause is $leastS to $mostS s", ({ attempts, leastS, mostS }) => {
  expect(mailBackOffMs(attempts, 0)).toBe(leastS * 1_000);
  expect(mailBackOffMs(attempts, 1)).toBe(mostS * 1_000);
});
