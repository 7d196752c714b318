import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createSlots } from "./slots.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const LIMITS = { count: 2, maxWaiting: 2, maxWaitMs: 1_000 };

test("a caller without a slot gets the next free one, in order", async () => {
  const slots = createSlots(LIMITS);
  const first = await slots.take();
  await slots.take();
  const got: string[] = [];
  const third = slots.take().then((release) => {
    got.push("third");
    return release;
  });
  const fourth = slots.take().then(() => got.push("fourth"));
  first?.();
  const release = await third;
  expect(got).toEqual(["third"]);
  release?.();
  await fourth;
  expect(got).toEqual(["third", "fourth"]);
});

test("the wait and the number of waiters are bounded", async () => {
  const slots = createSlots(LIMITS);
  const held = await slots.take();
  await slots.take();
  const waiting = [slots.take(), slots.take()];
  expect(await slots.take()).toBeUndefined();
  vi.advanceTimersByTime(1_000);
  expect(await Promise.all(waiting)).toEqual([undefined, undefined]);
  // Who has left takes no place.
  held?.();
  expect(await slots.take()).toBeDefined();
  vi.advanceTimersByTime(0);
});
