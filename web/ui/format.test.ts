import { expect, test } from "vitest";
import { UNSEEN_CLASS as OF_THE_LOG } from "#kit/values/unseen.ts";
import { deviceOf, fullName, sinceText, timeText, UNSEEN_CLASS, visible } from "./format.ts";

test("one name is shown without a space", () => {
  expect(fullName({ firstName: "Suharto", lastName: "" })).toBe("Suharto");
  expect(fullName({ firstName: "Ada", lastName: "Lovelace" })).toBe("Ada Lovelace");
});

test("a time of another day says which day", () => {
  const now = new Date("2026-03-05T12:00:00");
  expect(timeText("2026-03-05T09:03:59", "de", now)).toBe("09:03:59");
  expect(timeText("2026-03-04T09:03:59", "de", now)).toMatch(/^0?4\..*2026.*09:03:59$/);
});

test("what was 47 hours ago may have been the day before yesterday, so no day has a name", () => {
  const at = Date.parse("2026-03-05T10:00:00Z");
  const hoursAgo = (hours: number) => new Date(at - hours * 3_600_000).toISOString();
  expect(sinceText(hoursAgo(47), "en", at)).toBe("1 day ago");
  expect(sinceText(hoursAgo(71), "de", at)).toBe("vor 2 Tagen");
  expect(sinceText(hoursAgo(0), "en", at)).toBe("this minute");
});

test("a browser that is not known is shown as it calls itself", () => {
  expect(deviceOf(`SomeApp/1.0 (Android 14) ${"x".repeat(100)}`)).toEqual({
    browser: `SomeApp/1.0 (Android 14) ${"x".repeat(35)}`,
    system: "Android",
  });
  expect(deviceOf("curl/8.5.0")).toEqual({ browser: "curl", system: "" });
});

test.each([
  ["Ada Lovelace, naïve – “ü” 日本 \u{1f511}", "Ada Lovelace, naïve – “ü” 日本 \u{1f511}"],
  ["invoice\u202egpj.exe", "invoice⟨U+202E⟩gpj.exe"],
  ["\u2066a\u2069\u200f", "⟨U+2066⟩a⟨U+2069⟩⟨U+200F⟩"],
  ["pay\u200bpal\u00ad\ufeff", "pay⟨U+200B⟩pal⟨U+00AD⟩⟨U+FEFF⟩"],
  ["a\r\nb\tc\u0000\u009b\u2028", "a⟨U+000D⟩⟨U+000A⟩b⟨U+0009⟩c⟨U+0000⟩⟨U+009B⟩⟨U+2028⟩"],
  ["ACME\u3164", "ACME⟨U+3164⟩"],
  ["1\u00a0000\u202f00", "1⟨U+00A0⟩000⟨U+202F⟩00"],
  ["a  b", "a ⟨U+0020⟩b"],
  [" a ", "⟨U+0020⟩a⟨U+0020⟩"],
  ["\u{e0041}\ud800", "⟨U+E0041⟩⟨U+D800⟩"],
])("%j is shown as %j", (text, shown) => expect(visible(text)).toBe(shown));

test.each([
  ..."\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180e\u200b\u200c\u200d\u200e\u2028\u2029\u202e\u2060\u2066\u206a\u206f",
  ..."\u2800\u3000\u3164\ufe00\ufe0f\ufeff\uffa0\ufff9\ue000\u0378\u{1d173}\u{e0001}\u{e0100}",
])("%j is named, wherever it stands", (unseen) => {
  const code = (unseen.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0");
  expect(visible(`AC${unseen}ME${unseen}`)).toBe(`AC⟨U+${code}⟩ME⟨U+${code}⟩`);
});

test("pages and the log call the same characters unseen", () => expect(UNSEEN_CLASS).toBe(OF_THE_LOG));
