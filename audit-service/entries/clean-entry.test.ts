import fc from "fast-check";
import { expect, test } from "vitest";
import { MAX_LENGTH } from "#audit-client/stream/audit-entry.ts";
import { cleanEntry, cleanText, substituteId } from "./clean-entry.ts";
import { sampleEntry, sampleOrigin } from "./entry.fixture.ts";

const RECEIVED_AT = new Date("2026-03-01T10:00:01Z");
const clean = (changes: Parameters<typeof sampleEntry>[0]) =>
  cleanEntry(sampleEntry(changes), sampleOrigin(7), RECEIVED_AT).entry;

test("a valid entry is not changed", () => {
  const entry = sampleEntry();
  expect(cleanEntry(entry, sampleOrigin(1), RECEIVED_AT)).toEqual({ entry, origin: sampleOrigin(1) });
});

test.each([
  ["NUL", "a\u0000b"],
  ["an escape sequence", "a\u001bb"],
  ["a line break, which forges a log line", "a\nb"],
  ["a C1 control", "a\u009bb"],
  ["a line separator", "a\u2028b"],
  ["a right-to-left override", "a\u202eb"],
  ["half a surrogate pair", "a\ud800b"],
  ["the other half", "a\udc00b"],
])("%s becomes U+FFFD", (_name, text) => {
  expect(clean({ userAgent: text }).userAgent).toBe("a\ufffdb");
});

test("letters of any script and emoji are kept", () => {
  expect(cleanText("Zoë 日本語 👩‍💻 עברית", 64)).toBe("Zoë 日本語 👩‍💻 עברית");
});

test.each([
  { length: 511, kept: "x".repeat(511) },
  { length: 512, kept: "x".repeat(512) },
  { length: 513, kept: `${"x".repeat(511)}…` },
  { length: 1_000_000, kept: `${"x".repeat(511)}…` },
])("$kept of $length characters of a user agent are kept", ({ length, kept }) => {
  expect(clean({ userAgent: "x".repeat(length) }).userAgent).toBe(kept);
});

test.each([..."\u061c\u034f\u200b\u206a\u206f\u2066\u2800\u3164\ufe0f\u{e0001}"])(
  "%j, which nobody sees, is replaced in the log",
  (unseen) => expect(cleanText(`AC${unseen}ME`, 100)).toBe("AC\ufffdME"),
);

test.each([
  ["Persian", "علی\u200cرضا"],
  ["Sinhala", "ශ්\u200dරී"],
  ["Malayalam", "ന\u0d4d\u200d"],
  ["a variant of Han", "葛\u{e0100}"],
  ["Mongolian", "ᠮᠣᠩᠭᠣᠯ\u180e"],
])("what is spelling in a name is kept in the log: %s", (_script, name) => {
  expect(cleanText(`for ${name}, by phone`, 100)).toBe(`for ${name}, by phone`);
});

test.each(["a\u200cb", "علی\u200d رضا", "क\u200cख", "\u200cعلی", "x\u{e0100}"])(
  "%j has the same characters where they are no spelling, and they are replaced",
  (text) => expect(cleanText(text, 100)).toBe(text.replace(/\u200c|\u200d|\u{e0100}/u, "\ufffd")),
);

test("a cut inside a surrogate pair leaves no lone surrogate", () => {
  expect(cleanText("👩".repeat(10), 4)).toBe("👩\ufffd…");
});

test("any cleaned text is short enough, and can be stored and shown", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 600 }), (text) => {
      const cleaned = cleanText(text, MAX_LENGTH.userAgent);
      expect(cleaned.length).toBeLessThanOrEqual(512);
      expect(cleaned.isWellFormed()).toBe(true);
      expect(cleaned).not.toMatch(/\p{Cc}/u);
    }),
  );
});

test("an invalid id is replaced by one derived from the origin, the same in repetitions", () => {
  const { id } = clean({ id: "'; drop table entries" });
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(clean({ id: "" }).id).toBe(id);
  expect(substituteId(sampleOrigin(8))).not.toBe(id);
});

test.each([
  ["missing", Number.NaN],
  ["before 1970", -1],
  ["after 9999", Date.UTC(10_000, 0, 1)],
])("a time that is %s is replaced by the time of receipt", (_name, ms) => {
  expect(clean({ occurredAt: new Date(ms) }).occurredAt).toEqual(RECEIVED_AT);
});

test.each([
  { httpStatus: 999, kept: 999 },
  { httpStatus: 1_000, kept: 0 },
  { httpStatus: 4_294_967_295, kept: 0 },
])("an HTTP status of $httpStatus is kept as $kept", ({ httpStatus, kept }) => {
  expect(clean({ httpStatus }).httpStatus).toBe(kept);
});
