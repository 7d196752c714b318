import { expect, test } from "vitest";
import { PERSONAL_NAME } from "../../service-kit/unseen.ts";
import { personalName, toldNames } from "./personal-name.ts";

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
  ["", "too_short"],
  [" \t\u00a0", "too_short"],
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
  const told = { firstName: "A\u200bda", lastName: "علی\u200cرضا", name: "", email: undefined };
  expect(toldNames(told)).toEqual({ firstName: "Ada", lastName: "علی\u200cرضا" });
});

test("the gateway's rule is the same, and asks for something to be seen", () => {
  for (const name of ["Ada", "علی\u200cرضا", "ශ්\u200dරී"]) expect(PERSONAL_NAME.test(name)).toBe(true);
  for (const name of ["", " ", "\u3000", "A\u200bda", "\u3164"]) expect(PERSONAL_NAME.test(name)).toBe(false);
});
