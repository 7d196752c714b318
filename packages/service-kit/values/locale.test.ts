import { expect, test } from "vitest";
import { languageTag, lookupTags, preferredLanguage, timeZoneName } from "./locale.ts";

test.each([
  ["de", "de"],
  ["DE-at", "de-AT"],
  ["zh-hant-tw", "zh-Hant-TW"],
  ["de-DE-u-nu-arab-ca-buddhist", "de-DE"],
  ["iw", "he"],
  ["", undefined],
  ["*", undefined],
  ["de_DE", undefined],
  ["und", undefined],
  ["../../etc", undefined],
  ["de\r\nBcc: eve@evil.example", undefined],
  [`de${"-abcdefgh".repeat(4)}`, undefined],
])("the language %j is %j", (text, tag) => {
  expect(languageTag(text)).toBe(tag);
});

test("a tag is looked up from the most exact to the least", () => {
  expect(lookupTags("zh-Hant-TW")).toEqual(["zh-Hant-TW", "zh-Hant", "zh"]);
});

test.each([
  ["Europe/Berlin", "Europe/Berlin"],
  ["europe/berlin", "Europe/Berlin"],
  ["UTC", "UTC"],
  ["+01:00", undefined],
  ["Mars/Olympus", undefined],
  ["", undefined],
  [`Europe/${"x".repeat(99)}`, undefined],
])("the time zone %j is %j", (text, zone) => {
  expect(timeZoneName(text)).toBe(zone);
});

test.each([
  ["de-AT,de;q=0.9,en;q=0.8", "de-AT"],
  ["en;q=0.5, fr;q=0.7", "fr"],
  ["*, es;q=0.1", "es"],
  ["de;q=0, en;q=0.1", "en"],
  ["de;q=high", undefined],
  ["*", undefined],
  ["", undefined],
  [",;=,\u0000", undefined],
])("Accept-Language %j prefers %j", (header, tag) => {
  expect(preferredLanguage(header)).toBe(tag);
});
