import { expect, test } from "vitest";
import type { Sample, Subject } from "../figures/figure.ts";
import { partLines, rounded, rowsOf, tableOf } from "./report.ts";

const subject = (name: string, isOurs: boolean, version?: string): Subject => ({
  name,
  isOurs,
  ...(version !== undefined && { version }),
  sample: async () => ({ values: {} }),
});
const samples = (...values: number[]): Sample[] =>
  values.map((value) => ({ values: { "": value }, parts: { gateway: value } }));
const quantity = (...aims: { of?: string; atMost?: number; atLeast?: number }[]) => [
  { name: "", unit: "µs", aims },
];

test("a ratio is the median of the rounds' own ratios, and is held to the aim of its reference", () => {
  const taken = new Map([
    [subject("ours", true, "this"), samples(10, 20, 90)],
    [subject("Envoy with a log", false), samples(10, 40, 100)],
    [subject("HAProxy", false), samples(1, 1, 1)],
  ]);
  const rows = rowsOf({ name: "forwarded", quantities: quantity({ of: "Envoy", atMost: 0.8 }) }, taken);
  expect(
    rows.map(({ reference, ratio, aim, verdict }) => [reference?.name, ratio?.median, aim, verdict]),
  ).toEqual([
    ["Envoy with a log", 0.9, "≤ 0.8", "misses"],
    ["HAProxy", 20, undefined, undefined],
  ]);
});

test.each([
  { aim: { atMost: 2 }, value: 2, verdict: "meets" },
  { aim: { atMost: 2 }, value: 2.01, verdict: "misses" },
  { aim: { atLeast: 2 }, value: 2, verdict: "meets" },
  { aim: { atLeast: 2 }, value: 1.99, verdict: "misses" },
  { aim: { atMost: 2 }, value: Number.NaN, verdict: "misses" },
])("an aim of $aim: $value $verdict it", ({ aim, value, verdict }) => {
  const rows = rowsOf(
    { name: "me", quantities: quantity(aim) },
    new Map([[subject("ours", true), samples(value)]]),
  );
  expect(rows.map((row) => row.verdict)).toEqual([verdict]);
});

test("of two versions each is compared with its own reference, and has its name", () => {
  const taken = new Map([
    [subject("ours", true, "this"), samples(2)],
    [subject("one route", false, "this"), samples(1)],
    [subject("ours", true, "abc"), samples(9)],
    [subject("one route", false, "abc"), samples(3)],
  ]);
  const rows = rowsOf({ name: "routes", quantities: quantity({ of: "route", atMost: 1.1 }) }, taken);
  expect(rows.map(({ version, ratio }) => [version, ratio?.median])).toEqual([
    ["this", 2],
    ["abc", 3],
  ]);
  expect(partLines(rows)).toEqual(["routes @ this, µs: gateway 2", "routes @ abc, µs: gateway 9"]);
});

test("the table has a line a row, with equal columns", () => {
  const taken = new Map([[subject("ours", true), samples(1, 2, 3)]]);
  const lines = tableOf(rowsOf({ name: "me", quantities: quantity({ atMost: 5 }) }, taken)).split("\n");
  expect(lines[2]).toMatch(/^\| me +\| 2 \[1–3\] µs +\| +\| +\| ≤ 5 +\| meets +\|$/);
  expect(new Set(lines.map(({ length }) => length)).size).toBe(1);
});

test.each([
  [0.123456, "0.123"],
  [12.345, "12.3"],
  [1_234.5, "1,235"],
  [123_456, "123,456"],
  [Number.NaN, "?"],
])("%d is shown as %s", (value, text) => {
  expect(rounded(value)).toBe(text);
});
