import { expect, test } from "vitest";
import { atMost } from "./at-most.ts";

test("only the given number of calls passes in each period", () => {
  let now = 0;
  const passed: number[] = [];
  const limited = atMost(
    2,
    1_000,
    (value: number) => passed.push(value),
    () => now,
  );
  for (const [at, value] of [
    [0, 1],
    [0, 2],
    [999, 3],
    [1_000, 4],
    [5_000, 5],
  ] as const) {
    now = at;
    limited(value);
  }
  expect(passed).toEqual([1, 2, 4, 5]);
});
