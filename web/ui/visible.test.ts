import { expect, test } from "vitest";
import { visible } from "./visible.ts";

test.each([
  ["Ada Lovelace, naïve – “ü” 日本 \u{1f511}", "Ada Lovelace, naïve – “ü” 日本 \u{1f511}"],
  ["invoice\u202egpj.exe", "invoice⟨U+202E⟩gpj.exe"],
  ["\u2066a\u2069\u200f", "⟨U+2066⟩a⟨U+2069⟩⟨U+200F⟩"],
  ["pay\u200bpal\u00ad\ufeff", "pay⟨U+200B⟩pal⟨U+00AD⟩⟨U+FEFF⟩"],
  ["a\r\nb\tc\u0000\u009b\u2028", "a⟨U+000D⟩⟨U+000A⟩b⟨U+0009⟩c⟨U+0000⟩⟨U+009B⟩⟨U+2028⟩"],
  ["\u{e0041}\ud800", "⟨U+E0041⟩⟨U+D800⟩"],
])("%j is shown as %j", (text, shown) => expect(visible(text)).toBe(shown));
