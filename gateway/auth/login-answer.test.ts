import { expect, test } from "vitest";
import { resultOf } from "./login-answer.ts";

const completed = { tokens: undefined, user: undefined, deviceToken: "device" };
const passwordChange = { tempToken: "temp", userId: "ada" };
const nothing = { completed: undefined, passwordChange: undefined, result: undefined };

test.each([
  ["a session", { completed }, { $case: "completed", value: completed }],
  ["a wait for a new password", { passwordChange }, { $case: "passwordChange", value: passwordChange }],
  ["nothing that is known", {}, undefined],
])("an identity-service of the version before comes to %s", (_what, answer, expected) => {
  expect(resultOf({ ...nothing, ...answer })).toEqual(expected);
});

test("where `result` is there, it counts: what a later version adds is not taken for a session", () => {
  expect(resultOf({ ...nothing, completed, result: { result: undefined } })).toBeUndefined();
  const value = { ...passwordChange, methods: ["totp"] };
  const result = { $case: "mfaChallenge", value } as const;
  expect(resultOf({ completed, result: { result } })).toEqual(result);
});
