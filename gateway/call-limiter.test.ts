import { expect, test } from "vitest";
import type { Bucket } from "./bucket.ts";
import { testLimiterContract } from "./call-limiter.contract.ts";
import { createMemoryLimiter } from "./call-limiter.ts";

let nowMs = 1e6;

testLimiterContract("a limiter in memory", async () => ({
  limiter: createMemoryLimiter({ replicas: 1, now: () => nowMs }),
  pass: (ms) => {
    nowMs += ms;
  },
}));

test("a gateway that is one of three has a third of the limits, and never nothing", () => {
  const limiter = createMemoryLimiter({ replicas: 3, now: () => nowMs });
  const admitted = (calls: number) => {
    const limit = { calls, perSeconds: 60 };
    const bucket: Bucket = { kind: "own login address", name: `${calls}`, scope: "address", limit };
    return Array.from({ length: 20 }, () => limiter.takeHere([bucket])).filter(
      ({ refusedBy }) => refusedBy === undefined,
    ).length;
  };
  expect([admitted(15), admitted(2)]).toEqual([5, 1]);
});
