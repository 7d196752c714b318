import { expect, test } from "vitest";
import { ASSURANCE_LEVELS, acrOf, levelFromAmr, parseAcr } from "./assurance.ts";

test("each level has its name, and other texts have none", () => {
  expect(ASSURANCE_LEVELS.map(acrOf)).toEqual([
    "urn:gatehouse:acr:1",
    "urn:gatehouse:acr:2",
    "urn:gatehouse:acr:3",
  ]);
  expect(ASSURANCE_LEVELS.map((level) => parseAcr(acrOf(level)))).toEqual([1, 2, 3]);
  for (const text of ["", "2", "urn:gatehouse:acr:", "urn:gatehouse:acr:0", "URN:gatehouse:acr:2"])
    expect(parseAcr(text)).toBeUndefined();
});

test("methods alone never reach the level of a passkey", () => {
  expect(levelFromAmr(["pwd", "otp", "mfa"])).toBe(2);
  expect(levelFromAmr(["pwd", "otp"])).toBe(1);
  expect(levelFromAmr(["hwk", "user"])).toBe(1);
  expect(levelFromAmr([])).toBe(1);
});
