import fc from "fast-check";
import { expect, test } from "vitest";
import { canonicalEmail, isLookAlike, localPartOf } from "./canonical-email.ts";

const DECOMPOSED = "Rene\u0301";
const COMPOSED = "ren\u00e9";

test.each([
  ["anna@example.com", "anna@example.com"],
  ["Anna.Smith@Example.COM", "anna.smith@example.com"],
  ["anna+shop@example.com", "anna+shop@example.com"],
  ["o'brien@example.com", "o'brien@example.com"],
  ["anna@bücher.example", "anna@xn--bcher-kva.example"],
  ["anna@BÜCHER.example", "anna@xn--bcher-kva.example"],
  ["anna@XN--BCHER-KVA.example", "anna@xn--bcher-kva.example"],
  [`${DECOMPOSED}@example.com`, `${COMPOSED}@example.com`],
  ["\u212Aelvin@example.com", "kelvin@example.com"], // KELVIN SIGN is K in NFC
  ["ΟΔΥΣΣΕΥΣ@example.com", "οδυσσευς@example.com"],
  ["a@b.co", "a@b.co"],
  [`${"a".repeat(64)}@example.com`, `${"a".repeat(64)}@example.com`],
])("%s is stored as %s", (typed, stored) => {
  expect(canonicalEmail(typed)).toBe(stored);
});

const LABEL = "d".repeat(63);

test.each([
  ["nothing", ""],
  ["no @", "anna.example.com"],
  ["two @", "anna@home@example.com"],
  ["no local part", "@example.com"],
  ["no domain", "anna@"],
  ["a domain of one label", "anna@localhost"],
  ["a leading dot", ".anna@example.com"],
  ["a trailing dot", "anna.@example.com"],
  ["two dots in a row", "anna..smith@example.com"],
  ["an empty domain label", "anna@example..com"],
  ["a domain with a trailing dot", "anna@example.com."],
  ["a label that begins with a hyphen", "anna@-example.com"],
  ["an underscore in the domain", "anna@ex_ample.com"],
  ["a space inside", "anna smith@example.com"],
  ["a space before", " anna@example.com"],
  ["a line break after", "anna@example.com\n"],
  ["a header smuggled in", "anna@example.com\r\nBcc: all@example.com"],
  ["a NUL", "anna\u0000@example.com"],
  ["a no-break space", "anna\u00a0smith@example.com"],
  ["a zero-width space", "an\u200bna@example.com"],
  ["a right-to-left override", "anna\u202e@example.com"],
  ["a quoted local part", '"anna smith"@example.com'],
  ["a display name", "Anna <anna@example.com>"],
  ["two addresses", "anna@example.com,eve@example.com"],
  ["an address literal", "anna@[127.0.0.1]"],
  ["an IPv4 address", "anna@127.0.0.1"],
  ["a short IPv4 address", "anna@127.1"],
  ["a full-width IPv4 address", "anna@１２７.0.0.1"],
  ["a port", "anna@example.com:25"],
  ["an escape", "anna@ex%61mple.com"],
  ["a path", "anna@example.com/inbox"],
  ["a full-width @", "anna＠example.com"],
  ["a lone surrogate", "anna\ud800@example.com"],
  ["a local part of 65 octets", `${"a".repeat(65)}@example.com`],
  ["a local part of 33 characters in 66 octets", `${"é".repeat(33)}@example.com`],
  ["a label of 64 characters", `anna@${"d".repeat(64)}.com`],
  ["255 characters", `${"a".repeat(59)}@${LABEL}.${LABEL}.${LABEL}.com`],
  ["a megabyte", `${"a".repeat(1_000_000)}@example.com`],
])("an address with %s is none", (_what, typed) => {
  expect(canonicalEmail(typed)).toBeUndefined();
});

test("254 characters is the most", () => {
  const typed = `${"a".repeat(58)}@${LABEL}.${LABEL}.${LABEL}.com`;
  expect(typed).toHaveLength(254);
  expect(canonicalEmail(typed)).toBe(typed);
});

test("a canonical address is its own canonical form, whatever was typed", () => {
  const typedEmail = fc
    .tuple(
      fc.string({ unit: "binary", minLength: 1, maxLength: 8 }),
      fc.string({ unit: "binary", maxLength: 6 }),
    )
    .map(([localPart, label]) => `${localPart}@x${label}.example`);
  fc.assert(
    fc.property(typedEmail, (typed) => {
      const email = canonicalEmail(typed);
      if (email !== undefined) expect(canonicalEmail(email)).toBe(email);
    }),
    { numRuns: 2_000 },
  );
});

test("letters in every case lead to one account", () => {
  fc.assert(
    fc.property(fc.stringMatching(/^[a-zA-Z0-9]{1,20}$/), (name) => {
      expect(canonicalEmail(`${name.toUpperCase()}@Example.com`)).toBe(canonicalEmail(`${name}@EXAMPLE.com`));
    }),
  );
});

test("the local part is what stands before the @", () => {
  expect(localPartOf("anna.smith@example.com")).toBe("anna.smith");
});

test.each([
  "\uff55\uff53\uff45\uff52@example.com",
  "u\u017fer@example.com",
  "\ufb01@example.com",
  "x\u00b2@example.com",
])("%s looks like another address", (typed) => {
  expect(isLookAlike(canonicalEmail(typed) ?? "")).toBe(true);
});

test.each([
  "user@example.com",
  "j\u00f6rg@example.com",
  "\u0438\u0432\u0430\u043d@example.com",
  "\u674e@example.com",
  "\u1112\u1161\u11ab@example.com",
])("%s is spelled as it looks", (typed) => {
  expect(isLookAlike(canonicalEmail(typed) ?? "")).toBe(false);
});
