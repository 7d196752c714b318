import { expect, test } from "vitest";
import { backOffMs } from "./back-off.ts";

const TWICE = { attempt: 2, firstMs: 100, maxMs: 1_000 };

test("each attempt doubles the pause, up to the maximum, however many there were", () => {
  const pauses = [1, 2, 3, 4, 5, 5_000].map((attempt) => backOffMs({ ...TWICE, attempt }));
  expect(pauses).toEqual([100, 200, 400, 800, 1_000, 1_000]);
});

test("a random number varies the pause by a fifth, or within the given range", () => {
  expect([0, 0.5, 1].map((random) => backOffMs({ ...TWICE, random }))).toEqual([160, 200, 240]);
  const range = [0.5, 1] as const;
  expect([0, 0.5, 1].map((random) => backOffMs({ ...TWICE, random, range }))).toEqual([100, 150, 200]);
});

test("the maximum is that of the pause before it varies", () => {
  expect(backOffMs({ ...TWICE, attempt: 9, random: 1 })).toBe(1_200);
});
