import fc from "fast-check";
import { expect, test } from "vitest";
import { actReason } from "#identity-service/audit/act-reason.ts";
import { DomainError } from "#kit/values/errors.ts";
import { reasonProblem } from "./reason.ts";

function refusedAs(typed: string): string | undefined {
  try {
    actReason(typed);
  } catch (error) {
    if (error instanceof DomainError) return error.fields?.[0]?.code;
    throw error;
  }
  return undefined;
}

const CODES = {
  "": undefined,
  "form.required": undefined,
  "problems.reasonLong": "too_long",
  "problems.reasonUnseen": "invalid_format",
  "problems.reason": "invalid_format",
};

const parts = fc.constantFrom(
  ..."a9@-._()/ \u00e9\u0301\u2028\u202e\u2066\u200b\n\ud800",
  "2026-11-27",
  "0199a000-0000-7000-8000-0000000000aa",
  "12345678",
  "A_b-".repeat(10),
  "word ".repeat(11),
);

test("pages refuse the reasons that the service refuses, and no others", () => {
  const typed = fc.array(parts, { maxLength: 14 }).map((list) => list.join(""));
  const seen = new Set<string>();
  fc.assert(
    fc.property(typed, (text) => {
      const problem = reasonProblem(text);
      seen.add(problem);
      expect(refusedAs(text)).toBe(CODES[problem]);
    }),
    { numRuns: 5_000 },
  );
  expect([...seen].sort()).toEqual(Object.keys(CODES).sort());
});

test.each([
  ["  ", "form.required"],
  ["a b ".repeat(31), "problems.reasonLong"],
  ["\u202egnirts", "problems.reasonUnseen"],
  ["call +49 (170) 123-4567", "problems.reason"],
  ["Ticket 4711 of 2026-11-27", ""],
])("%j: %j", (typed, problem) => expect(reasonProblem(typed)).toBe(problem));
