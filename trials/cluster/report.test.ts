import { expect, test } from "vitest";
import { changedBy } from "./context.ts";
import { BUCKETS_MS, parseLoadLines } from "./load-lines.ts";
import { failureSummary, hasFailed, resultOf, table } from "./report.ts";

const second = (counts: Record<number, number>, slowestMs: number, reconnected = 0) => {
  const buckets = [...BUCKETS_MS, Number.POSITIVE_INFINITY].map((bound) => counts[bound] ?? 0);
  const done = buckets.reduce((sum, count) => sum + count, 0);
  return { done, open: 0, reconnected, slowestMs, buckets };
};
const failure = (why: string, at: string) => ({ failed: "login", why, ms: 12, at });
const restart = { name: "restart", seconds: 12.3, note: "" };

test("a result sums up the seconds of its disturbance", () => {
  const lines = [
    second({ 5: 98, 50: 1 }, 30, 3),
    failure("503 busy", "1"),
    second({ 5: 100, 1000: 1 }, 700, 7),
  ];
  const result = resultOf(restart, lines, 2);
  expect(result).toMatchObject({ calls: 200, reconnected: 5, p50Ms: 5, p99Ms: 5, slowestMs: 700 });
  expect(hasFailed(result)).toBe(true);
  expect(table([result])).toContain("| restart | 12 | 200 | **1** | 5 | 5 / 5 / 700 |  |");
});

test("what took longer than the last bound is counted by the slowest", () => {
  const result = resultOf(restart, [second({ 5: 1, [Number.POSITIVE_INFINITY]: 9 }, 16_000)], 0);
  expect(result).toMatchObject({ p50Ms: 16_000, p99Ms: 16_000 });
});

test("no calls, and a disturbance that did not come to its end, have shown nothing", () => {
  expect(hasFailed(resultOf(restart, [], 0))).toBe(true);
  const calm = [second({ 5: 10 }, 3)];
  expect(hasFailed(resultOf(restart, calm, 0))).toBe(false);
  expect(hasFailed(resultOf({ ...restart, problem: "not within ten minutes" }, calm, 0))).toBe(true);
});

test("failures of one kind are one line, with the first and the last", () => {
  const lines = [failure("503 busy", "1"), failure("0 ECONNRESET", "2"), failure("503 busy", "3")];
  expect(failureSummary(resultOf(restart, lines, 0))).toEqual([
    "2 × login: 503 busy, 1 to 3",
    "1 × login: 0 ECONNRESET, 2 to 2",
  ]);
});

test("only lines of the load are read", () => {
  expect(parseLoadLines('{"ready":true}\n(node:1) Warning: x\n7\n\n{"done":1')).toEqual([{ ready: true }]);
});

test("a second apply may only send disruption budgets again", () => {
  const output = [
    "service/gateway unchanged",
    "poddisruptionbudget.policy/gateway configured",
    "statefulset.apps/postgres configured",
    "",
  ].join("\n");
  expect(changedBy(output)).toEqual(["statefulset.apps/postgres configured"]);
});
