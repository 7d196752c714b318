import { pino } from "pino";
import { expect, test } from "vitest";
import { followReadiness } from "./service-process.ts";

/** Follows looks at the readiness, one a second. @returns what the server was told after each. */
function told(looks: string[][]): boolean[] {
  let nowMs = 0;
  const serving: boolean[] = [];
  const server = { setServing: async (isServing: boolean) => void serving.push(isServing) };
  const follow = followReadiness(server, pino({ level: "silent" }), () => nowMs);
  for (const reasons of looks) {
    follow(reasons);
    nowMs += 1_000;
  }
  return serving;
}

test("a server takes no calls once its process has been unready for two seconds, and takes them when it is ready", () => {
  const away = ["database"];
  expect(told([[], away, away, away, away, [], away])).toEqual([true, true, true, false, false, true, true]);
});

test("short spells do not add up", () => {
  const away = ["clock"];
  expect(told([away, away, [], away, away, []])).toEqual([true, true, true, true, true, true]);
});

test("a process that starts or drains goes on serving", () => {
  const looks = [["starting"], ["starting"], ["starting"], ["draining"], ["draining"], ["draining"]];
  expect(told(looks)).toEqual(looks.map(() => true));
});
