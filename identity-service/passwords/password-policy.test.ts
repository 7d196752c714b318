import { expect, test } from "vitest";
import { DomainError } from "#kit/values/errors.ts";
import { checkPassword, commonPasswords, refuseBreached } from "./password-policy.ts";

const POLICY = { minLength: 8, common: commonPasswords(8) };

function refusalOf(password: string, email = "anna.smith@example.com", policy = POLICY): string | undefined {
  try {
    checkPassword(policy, password, email);
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error.code;
    throw error;
  }
}

test.each([
  ["Password123!"],
  ["correct horse battery staple"],
  ["        "], // no rule of composition: eight spaces are eight characters
  ["пароль-длинный"],
  ["🔑🔒🗝️🚪🏠🏡🛖"],
  ["a1".repeat(64)],
  ["👩‍🚀👩‍🚀👩‍🚀👩‍🚀"], // eight code points that are seen
  ["𠮷".repeat(128)],
])("%j is accepted", (password) => {
  expect(refusalOf(password)).toBeUndefined();
});

test.each([
  ["", "password_too_short"],
  ["Passw0!", "password_too_short"],
  ["\0".repeat(10), "password_too_short"],
  ["\u200b".repeat(10), "password_too_short"],
  ["\u0007\u202e".repeat(20), "password_too_short"],
  ["abc\u200b\u200b\u200b\u200b\u200b", "password_too_short"],
  ["🔑".repeat(7), "password_too_short"], // 14 UTF-16 units
  ["e\u0301".repeat(7), "password_too_short"], // 14 code points before NFC, 7 after
  ["password", "password_too_common"],
  ["PASSWORD", "password_too_common"],
  ["12345678", "password_too_common"],
  ["Qwerty123", "password_too_common"],
  ["iloveyou", "password_too_common"],
  ["anna.smith", "password_contains_email"],
  ["Anna.Smith-2031", "password_contains_email"],
  ["my anna.smith@example.com", "password_contains_email"],
  ["a".repeat(129), "validation_failed"],
  ["𠮷".repeat(129), "validation_failed"],
  ["lone \ud800 surrogate", "validation_failed"],
  ["x".repeat(1_000_000), "validation_failed"],
])("%j is refused: %s", (password, code) => {
  expect(refusalOf(password)).toBe(code);
});

test.each([
  ["al@example.com", "vertical farming", undefined],
  ["bob@example.com", "skateboBBing", "password_contains_email"],
  ["al@example.com", "I am al@example.com!", "password_contains_email"],
  ["anna@example.com", "SAVANNA-2031", "password_contains_email"],
  ["rené@example.com", "Rene\u0301e-4711", "password_contains_email"],
])("%s may choose %j: %s", (email, password, code) => {
  expect(refusalOf(password, email)).toBe(code);
});

test("a password that is too long names the field", () => {
  expect(() => checkPassword(POLICY, "a".repeat(129), "a@b.co")).toThrow(
    expect.objectContaining({ fields: [expect.objectContaining({ field: "password", code: "too_long" })] }),
  );
});

test("a raised minimum holds, and the 3,000 most common are counted from there", () => {
  const policy = { minLength: 12, common: commonPasswords(12) };
  expect(refusalOf("elevenchars", undefined, policy)).toBe("password_too_short");
  expect(refusalOf("123456789012", undefined, policy)).toBe("password_too_common");
});

test("3,000 common passwords are known, none of them too short to be chosen", () => {
  expect(POLICY.common.size).toBe(3_000);
  expect([...POLICY.common].filter((password) => [...password].length < 8)).toEqual([]);
  expect([...POLICY.common].filter((password) => password !== password.toLowerCase())).toEqual([]);
});

test("lookups are asked in order, until one knows the password", async () => {
  const asked: string[] = [];
  const lookup = (name: string, known: string) => ({
    isBreached: async (password: string) => {
      asked.push(name);
      return password === known;
    },
  });
  const policy = { ...POLICY, breaches: [lookup("list", "letmein"), lookup("range", "qwerty")] };
  await expect(refuseBreached(policy, "letmein")).rejects.toMatchObject({ code: "password_too_common" });
  expect(asked.splice(0)).toEqual(["list"]);
  await expect(refuseBreached(policy, "qwerty")).rejects.toMatchObject({ code: "password_too_common" });
  expect(asked.splice(0)).toEqual(["list", "range"]);
  await refuseBreached(policy, "neither");
  expect(asked).toEqual(["list", "range"]);
  await refuseBreached(POLICY, "letmein");
});
