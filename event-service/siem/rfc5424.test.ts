import { expect, test } from "vitest";
import { streamEntry } from "../stream/event.fixture.ts";
import { toSyslogFrame } from "./rfc5424.ts";
import { toWholeEntry } from "./siem.fixture.ts";

const entry = toWholeEntry(streamEntry());
const fieldsOf = (frame: string) => frame.split(" ");

test.each([
  ["plain", "plain"],
  ['a"b', 'a\\"b'],
  ["a\\b", "a\\\\b"],
  ["a]b[", "a\\]b["],
  ['\\"]', '\\\\\\"\\]'],
  ["line\r\n<13>1 another\t\0", "line??<13>1 another??"],
  ["\u0085\u009b31m", "??31m"],
  ["ü 日本 😀", "ü 日本 😀"],
  ["half \ud800.", "half \ufffd."],
])("the value %j is written as %j", (resource, escaped) => {
  const frame = toSyslogFrame({ ...entry, resource }, "host");
  expect(frame).toContain(` resource="${escaped}" `);
  const space = frame.indexOf(" ");
  expect(Number(frame.slice(0, space))).toBe(Buffer.byteLength(frame.slice(space + 1)));
  const text = frame.slice(frame.indexOf("] \ufeff{") + 3);
  expect(text).not.toContain("\n");
  expect(JSON.parse(text)).toEqual({ ...entry, resource });
});

test("what is missing or cannot stand in the header is neither a space nor an empty field", () => {
  const odd = { ...entry, occurredAt: "+010000-01-01T00:00:00.000Z", producer: "", action: "ä b\n\x7f" };
  expect(fieldsOf(toSyslogFrame(odd, "h".repeat(300))).slice(1, 8)).toEqual([
    ...["<110>1", "-", "h".repeat(255), "gatehouse", "-", "??b??", "[gatehouse@32473"],
  ]);
});
