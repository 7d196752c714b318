import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { withinDeadline } from "./call-deadline.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => void vi.useRealTimers());

test("work that ends in time gives its result, or its failure, and leaves no timer", async () => {
  expect(await withinDeadline(Promise.resolve("done"), 100)).toBe("done");
  await expect(withinDeadline(Promise.reject(new Error("its own")), 100)).rejects.toThrow("its own");
  expect(vi.getTimerCount()).toBe(0);
});

test("work that is not done in time is unavailable from then on, not before", async () => {
  let failure: unknown;
  withinDeadline(new Promise(() => undefined), 100).catch((error: unknown) => {
    failure = error;
  });
  await vi.advanceTimersByTimeAsync(99);
  expect(failure).toBeUndefined();
  await vi.advanceTimersByTimeAsync(1);
  expect(failure).toMatchObject({ code: "service_unavailable", retryAfterMs: 1_000 });
});
