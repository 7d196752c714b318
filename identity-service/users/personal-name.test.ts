import { expect, test } from "vitest";
import { OPTIONAL_NAME, PERSONAL_NAME } from "#kit/values/unseen.ts";
import { fullName, personalName, reportedNames } from "./personal-name.ts";

test.each([
  ["Anna", "Anna"],
  ["  Anna Maria ", "Anna Maria"],
  ["Rene\u0301", "Ren\u00e9"],
  ["O'Brien-Smith Jr.", "O'Brien-Smith Jr."],
  ["محمد", "محمد"],
  ["李", "李"],
  ["𠮷".repeat(100), "𠮷".repeat(100)],
  ["Anna\u00a0\u3000Maria", "Anna Maria"],
  ["علی\u200cرضا", "علی\u200cرضا"],
  ["محمد\u200cرضا", "محمد\u200cرضا"],
  ["ශ්\u200dරී", "ශ්\u200dරී"],
  ["क्\u200dष", "क्\u200dष"],
  ["क्\u200cष", "क्\u200cष"],
  ["അവന്\u200d", "അവന്\u200d"],
  ["র\u200d্যাব", "র\u200d্যাব"],
  ["葛\u{e0100}城", "葛\u{e0100}城"],
])("%j is stored as %j", (typed, stored) => {
  expect(personalName("firstName", typed)).toEqual({ name: stored });
});

test.each([
  ["a".repeat(101), "too_long"],
  ["𠮷".repeat(101), "too_long"],
  ["An\u0000na", "invalid_format"],
  ["Anna\r\nBcc: x", "invalid_format"],
  ["Anna\u2028Smith", "invalid_format"],
  ["Anna\u202egnp.exe", "invalid_format"],
  ["Anna \ud800", "invalid_format"],
  ...[
    ..."\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u206a\u206f",
    ..."\u2800\u3164\ufe00\ufe0f\uffa0\ufff9\ue000\u0378\u{1d173}\u{e0001}\u{e0041}\u{e0100}",
  ].flatMap((unseen): [string, string][] => [
    [`An${unseen}na`, "invalid_format"],
    [`Anna${unseen}`, "invalid_format"],
    [unseen, "invalid_format"],
  ]),
  ["An\ufeffna", "invalid_format"],
  ["علی\u200c", "invalid_format"],
  ["\u200cعلی", "invalid_format"],
  ["علی\u200c\u200cرضا", "invalid_format"],
  ["李\ufe0f", "invalid_format"],
])("%j is no name: %s", (typed, code) => {
  expect(personalName("lastName", typed)).toEqual({
    problem: { field: "lastName", code, message: expect.any(String) },
  });
});

test("a name of another system loses only what nobody sees", () => {
  const reported = { firstName: "A\u200bda", lastName: "علی\u200cرضا", name: "", email: undefined };
  expect(reportedNames(reported)).toEqual({ firstName: "Ada", lastName: "علی\u200cرضا" });
});

test.each(["", " ", " \t\u00a0", "\u3000"])("no last name is %j, and no first name is refused", (typed) => {
  expect(personalName("lastName", typed)).toEqual({ name: "" });
  expect(personalName("firstName", typed)).toMatchObject({ problem: { code: "too_short" } });
});

const UNSEEN = "\u200b";
test.each([
  ["Suharto", "", "", "Suharto", ""],
  ["Suharto", "", "Suharto", "Suharto", ""],
  ["Sri Lestari", "", "Sri Lestari", "Sri Lestari", ""],
  ["Suharto", "", "suharto21", "Suharto", ""],
  ["Suharto", " ", "", "Suharto", ""],
  ["Suharto", UNSEEN, "", "Suharto", ""],
  ["Suharto", "-", "", "Suharto", "-"],
  ["", "Suharto", "", "Suharto", ""],
  [UNSEEN, "Suharto", "Suharto", "Suharto", ""],
  ["", "", "Suharto", "Suharto", ""],
  ["", "", "Ada  King Lovelace", "Ada", "King Lovelace"],
  ["Ada", "", "Ada King Lovelace", "Ada", "King Lovelace"],
  ["Ada", "Lovelace", "Countess", "Ada", "Lovelace"],
  ["", "Lovelace", "Ada Lovelace", "Ada", "Lovelace"],
  ["", "Lovelace", "Ada", "Ada", "Lovelace"],
  ["", "", "", "s.h", ""],
  ["", UNSEEN, UNSEEN, "s.h", ""],
  [`${"a".repeat(99)} b`, "", "", "a".repeat(99), ""],
  [`${"ع".repeat(99)}\u200cع`, "", "", "ع".repeat(99), ""],
])("of %j, %j and %j the first name is %j and the last one %j", (firstName, lastName, name, first, last) => {
  const names = { firstName: first, lastName: last };
  expect(reportedNames({ firstName, lastName, name, email: "s.h@example.com" })).toEqual(names);
});

test("an address without a letter that can be seen before its @ is the first name as a whole", () => {
  const reported = { firstName: "", lastName: "", name: "", email: "\u034f@example.com" };
  expect(reportedNames(reported)).toEqual({ firstName: "@example.com", lastName: "" });
  expect(reportedNames({ ...reported, email: undefined })).toEqual({ firstName: "", lastName: "" });
});

test("one name is shown without a space", () => {
  expect(fullName({ firstName: "Suharto", lastName: "" })).toBe("Suharto");
  expect(fullName({ firstName: "Ada", lastName: "Lovelace" })).toBe("Ada Lovelace");
});

test("the gateway's rule is the same, and asks for something to be seen", () => {
  for (const name of ["Ada", "علی\u200cرضا", "ශ්\u200dරී"]) expect(PERSONAL_NAME.test(name)).toBe(true);
  for (const name of ["", " ", "\u3000", "A\u200bda", "\u3164"]) expect(PERSONAL_NAME.test(name)).toBe(false);
  for (const name of ["", " ", "\u3000", "Ada", "علی\u200cرضا"]) expect(OPTIONAL_NAME.test(name)).toBe(true);
  for (const name of ["A\u200bda", "\u3164", "\t"]) expect(OPTIONAL_NAME.test(name)).toBe(false);
});
