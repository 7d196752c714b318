import { expect, test } from "vitest";
import { throttleLimits } from "./throttle.ts";
import { budgetKey, ThrottleCounters } from "./throttle-counters.ts";

const counters = new ThrottleCounters(
  throttleLimits({ network: 100, everything: 50_000 }),
  Buffer.alloc(32, 7),
);

// A renamed counter starts at zero, and counts twice during a rolling upgrade.
test("replicas of two versions count together: every counter keeps its name", () => {
  const guess = { account: "ada", clientIp: "192.0.2.1" };
  const { budgets, ladders, epoch, turn } = counters.ofGuess(guess);
  const onDevice = counters.ofGuess({ ...guess, deviceId: "laptop" });
  expect([...budgets.map(budgetKey), ...ladders.map(({ key }) => key), epoch, turn]).toEqual([
    "N:bM3xne1B-t0umrMXmFVI_F",
    "G:",
    "a:xLBC5DE6C72HyKeAB2b9qO",
    "n:xLBC5DE6C72HyKeAB2b9qO:bM3xne1B-t0umrMXmFVI_F",
    "e:xLBC5DE6C72HyKeAB2b9qO",
    "t:xLBC5DE6C72HyKeAB2b9qO",
  ]);
  expect([...onDevice.ladders.map(({ key }) => key), onDevice.turn]).toEqual([
    "d:xLBC5DE6C72HyKeAB2b9qO:9QIuw7pl-U8A7T3crpYCNO",
    "t:xLBC5DE6C72HyKeAB2b9qO:9QIuw7pl-U8A7T3crpYCNO",
  ]);
  expect(
    counters
      .ofGuess({ ...guess, standing: "used_network" })
      .budgets.map(budgetKey)
      .at(-1),
  ).toBe("G:known:");
  const calls = { kind: "register", isKnown: true } as const;
  expect(counters.ofCall({ ...calls, clientIp: "2001:db8::1" }).map(budgetKey)).toEqual([
    "N:register:eJjp8_ZJvy7kMksJ5R4bSY",
    "N:register:known:9bBJmUaBaM3D-o7ITKCDpq",
    "N:register:known:sq2ZTGOXBydogd-zIZ7ap9",
    "G:register:known:",
  ]);
  expect(counters.ofCall({ ...calls, device: { id: "laptop", userId: "7" } }).map(budgetKey)).toEqual([
    "D:register:9QIuw7pl-U8A7T3crpYCNO",
    "U:register:GDjrq9Gkwbm4dsBEEMcrjQ",
  ]);
});

test("a call without an address counts against the shared budget only", () => {
  for (const clientIp of ["", undefined]) {
    expect(counters.ofCall({ kind: "register", clientIp }).map(budgetKey)).toEqual(["G:register:"]);
  }
});

test("no counter's name shows an address, an account or a device", () => {
  const guess = { account: "ada@example.com", clientIp: "192.0.2.1", deviceId: "laptop" };
  const device = { id: "laptop", userId: "ada-id" };
  const named = JSON.stringify([
    counters.ofGuess(guess),
    counters.ofGuess({ ...guess, deviceId: undefined, standing: "own_network" }),
    counters.ofCall({ kind: "register", clientIp: "192.0.2.1" }),
    counters.ofCall({ kind: "register", device }),
    counters.ofAccount(guess.account),
  ]);
  expect(named).not.toMatch(/ada|192\.0|laptop/);
});
