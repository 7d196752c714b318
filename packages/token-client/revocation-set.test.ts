import { expect, test } from "vitest";
import { RevocationSet } from "./revocation-set.ts";

test("sessions and keys are refused until their tokens have expired", () => {
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

test("a repeated revocation lasts until the later end", () => {
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

test("an end is the last moment that still counts, for sessions and for keys", () => {
  const set = new RevocationSet(10);
  set.addSession("s", 5_000);
  set.addKey("k", 5_000);
  set.forgetEnded(5_000);
  expect([set.hasSession("s"), set.hasKey("k"), set.size]).toEqual([true, true, 2]);
  set.forgetEnded(6_000);
  expect([set.hasSession("s"), set.hasKey("k"), set.size]).toEqual([false, false, 0]);
});

test("expired entries are searched at most once a second", () => {
  const set = new RevocationSet(10);
  set.forgetEnded(0);
  set.addSession("s", 500);
  set.forgetEnded(999);
  expect(set.hasSession("s")).toBe(true);
  set.forgetEnded(1_000);
  expect(set.hasSession("s")).toBe(false);
});

test("sessions and keys share the room, and one that is known already needs none", () => {
  const set = new RevocationSet(2);
  set.addSession("s", 5_000);
  set.addKey("k", 5_000);
  set.addKey("k", 7_000);
  expect(set.isComplete(0)).toBe(true);
  set.addKey("other", 9_000);
  expect(set.isComplete(0)).toBe(false);
  set.addSession("third", 6_000);
  expect(set.isComplete(8_999)).toBe(false);
});
