import { expect, test } from "vitest";
import { RevocationSet } from "./revocation-set.ts";

test("sessions and keys are refused until their tokens have died", () => {
  const set = new RevocationSet(10);
  set.addSession("s", 2_000);
  set.addKey("k", 9_000);
  expect([set.hasSession("s"), set.hasKey("k"), set.hasSession("x"), set.hasKey("x")]).toEqual([
    true,
    true,
    false,
    false,
  ]);
  set.forgetEnded(2_001);
  expect([set.hasSession("s"), set.hasKey("k")]).toEqual([false, true]);
});

test("a revocation told twice lasts until the later end", () => {
  const set = new RevocationSet(10);
  set.addSession("s", 5_000);
  set.addSession("s", 2_000);
  set.forgetEnded(3_000);
  expect(set.hasSession("s")).toBe(true);
});

test("a set that could not keep an entry is incomplete until that entry has ended, whatever room there is", () => {
  const set = new RevocationSet(2);
  set.addSession("a", 5_000);
  set.addSession("b", 5_000);
  expect(set.isComplete(0)).toBe(true);
  set.addSession("c", 9_000);
  set.forgetEnded(6_000);
  expect([set.size, set.isComplete(6_000), set.isComplete(8_999), set.isComplete(9_000)]).toEqual([
    0,
    false,
    false,
    true,
  ]);
});
