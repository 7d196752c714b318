import { expect, test } from "vitest";
import { assertPermissionNames } from "./assert-may-grant.ts";

const access = { holds: () => true, isPermission: (name: string) => name.startsWith("a:") };
const outcome = (names: readonly string[]) => {
  try {
    assertPermissionNames({ access }, names);
    return "granted";
  } catch (error) {
    return (error as { fields: { message: string }[] }).fields[0]?.message;
  }
};
const name = (index: number, characters: number) =>
  `a:${"x".repeat(characters - 5)}-${"abcdefghij"[index % 10]}${"abcdefghij"[Math.floor(index / 10)]}`;
/** Different names, with their spaces. */
const grant = (...characters: number[]) => characters.map((length, index) => name(index, length));

test.each([
  ["one", ["a:b"], "granted"],
  ["a hundred short ones", grant(...Array.from({ length: 100 }, () => 10)), "granted"],
  ["none", [], "must be 1 to 100 different names"],
  ["the same twice", ["a:b", "a:b"], "must be 1 to 100 different names"],
  ["101", [...grant(...Array.from({ length: 100 }, () => 10)), "a:b"], "must be 1 to 100 different names"],
  ["one that the file does not have", ["a:b", "b:c"], 'must be names of the access file, which has no "b:c"'],
  [
    "a long one that the file does not have",
    ["b".repeat(5_000)],
    `must be names of the access file, which has no "${"b".repeat(64)}"`,
  ],
  ["2,000 characters", grant(...Array.from({ length: 19 }, () => 99), 100), "granted"],
  [
    "2,001 characters",
    grant(...Array.from({ length: 19 }, () => 99), 101),
    "must have at most 2000 characters together",
  ],
])("a client that is to have %s", (_what, names, expected) => {
  expect(outcome(names)).toBe(expected);
});
