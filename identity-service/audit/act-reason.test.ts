import { expect, test } from "vitest";
import { MAX_LENGTH } from "#audit-client/stream/audit-entry.ts";
import { actReason, withReason } from "./act-reason.ts";

const problem = (typed: string) => {
  try {
    return actReason(typed);
  } catch (error) {
    return (error as { fields: { field: string; code: string }[] }).fields.map(({ field, code }) => [
      field,
      code,
    ]);
  }
};

test.each([
  ["", ""],
  ["  Lost phone, ticket INC-4711\t", "Lost phone, ticket INC-4711"],
  ["see 0199a000-0000-7000-8000-0000000000aa", "see 0199a000-0000-7000-8000-0000000000aa"],
  ["asked @ the counter on 2026-11-23 10:15:30", "asked @ the counter on 2026-11-23 10:15:30"],
  ["A\u030asa verlor ihr Ger\u00e4t", "\u00c5sa verlor ihr Ger\u00e4t"],
  ["r".repeat(40).concat(" ").repeat(2).concat("r".repeat(38)), expect.any(String)],
])("%j may be said", (typed, kept) => {
  expect(actReason(typed)).toEqual(kept);
});

test.each([
  ["a b ".repeat(31), "too_long"],
  ["two\nlines", "invalid_format"],
  ["\u202egnirts", "invalid_format"],
  ["nul\0", "invalid_format"],
  ["mail of ada@example.com", "invalid_format"],
  ["called from +49 (170) 123-4567", "invalid_format"],
  ["card 4111 1111 1111 1111", "invalid_format"],
  ["IBAN DE370400440532013000", "invalid_format"],
  [`key gh_${"a".repeat(32)}_${"B".repeat(43)}`, "invalid_format"],
])("%j may not: nobody could erase it", (typed, code) => {
  expect(problem(typed)).toEqual([["reason", code]]);
});

test("the longest reason of a change between the longest roles fits an entry", () => {
  const role = "R".repeat(MAX_LENGTH.role);
  const longest = withReason(`${role} to ${role}`, "r ".repeat(59).concat("rr"));
  expect(longest.length).toBeLessThanOrEqual(MAX_LENGTH.reason);
  expect(withReason("", "why")).toBe("why");
  expect(withReason("disabled")).toBe("disabled");
});
