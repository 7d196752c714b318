import { afterEach, expect, test, vi } from "vitest";
import { uuidv7 } from "./uuid-v7.ts";

afterEach(() => {
  vi.useRealTimers();
});

test("an id is a UUIDv7 that begins with the time", () => {
  vi.useFakeTimers({ now: 0x19a_bcde_f012 + 1_000_000_000_000 });
  const [time, rest] = [uuidv7().slice(0, 13), uuidv7()];
  expect(Number.parseInt(time.replace("-", ""), 16)).toBe(Date.now());
  expect(rest).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
});

test("ids of a process are in order: within a millisecond, past its last, and when the clock goes back", () => {
  const now = 3_000_000_000_000;
  vi.useFakeTimers({ now });
  const ids = Array.from({ length: 10_000 }, uuidv7);
  vi.setSystemTime(now - 60_000);
  ids.push(...Array.from({ length: 5_000 }, uuidv7));
  vi.setSystemTime(now + 60_000);
  ids.push(uuidv7());
  expect(ids).toEqual(ids.toSorted());
  expect(new Set(ids).size).toBe(ids.length);
});
