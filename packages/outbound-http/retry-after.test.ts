import { expect, test } from "vitest";
import { retryAfterMs } from "./retry-after.ts";

const now = new Date("2026-11-28T12:00:00.500Z");

test.each<[string | undefined, number]>([
  [undefined, 0],
  ["", 0],
  ["0", 0],
  ["120", 120_000],
  ["3600", 3_600_000],
  ["3601", 3_600_000],
  ["9".repeat(400), 3_600_000],
  ["Sat, 28 Nov 2026 12:00:30 GMT", 29_500],
  ["Saturday, 28-Nov-26 12:00:30 GMT", 29_500],
  ["Sat, 28 Nov 2026 12:00:00 GMT", 0],
  ["Fri, 31 Dec 9999 23:59:59 GMT", 3_600_000],
  ["-5", 0],
  ["NaN", 0],
  ["Infinity", 0],
  ["soon", 0],
])("Retry-After: %s", (value, expected) => {
  const headers = value === undefined ? {} : { "retry-after": value };
  expect(retryAfterMs(new Response(null, { headers }), now, 3_600_000)).toBe(expected);
});
