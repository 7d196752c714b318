import { expect, test } from "vitest";
import { personalName } from "./personal-name.ts";

test.each([
  ["Anna", "Anna"],
  ["  Anna Maria ", "Anna Maria"],
  ["Rene\u0301", "Ren\u00e9"],
  ["O'Brien-Smith Jr.", "O'Brien-Smith Jr."],
  ["محمد", "محمد"],
  ["李", "李"],
  ["𠮷".repeat(100), "𠮷".repeat(100)],
])("%j is stored as %j", (typed, stored) => {
  expect(personalName("firstName", typed)).toEqual({ name: stored });
});

test.each([
  ["", "too_short"],
  [" \t\u00a0", "too_short"],
  ["a".repeat(101), "too_long"],
  ["𠮷".repeat(101), "too_long"],
  ["An\u0000na", "invalid_format"],
  ["Anna\r\nBcc: x", "invalid_format"],
  ["Anna\u2028Smith", "invalid_format"],
  ["Anna\u202egnp.exe", "invalid_format"],
  ["Anna \ud800", "invalid_format"],
])("%j is no name: %s", (typed, code) => {
  expect(personalName("lastName", typed)).toEqual({
    problem: { field: "lastName", code, message: expect.any(String) },
  });
});
