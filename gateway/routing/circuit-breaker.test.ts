import { expect, test } from "vitest";
import { CircuitBreaker } from "./circuit-breaker.ts";

function opened(nowMs = 0): CircuitBreaker {
  const breaker = new CircuitBreaker();
  for (let failure = 0; failure < 5; failure += 1) breaker.failed(nowMs);
  return breaker;
}

test("five failures in a row open it; a success among them starts the count anew", () => {
  const breaker = new CircuitBreaker();
  for (const _ of [1, 2, 3, 4]) breaker.failed(0);
  breaker.succeeded();
  for (const _ of [1, 2, 3, 4]) breaker.failed(0);
  expect(breaker.letThrough(0)).toBe(true);
  breaker.failed(0);
  expect([breaker.letThrough(0), breaker.state]).toEqual([false, "open"]);
});

test("after the pause one call tries, and its success closes it", () => {
  const breaker = opened();
  expect(breaker.letThrough(999)).toBe(false);
  expect([breaker.letThrough(1_000), breaker.letThrough(1_000)]).toEqual([true, false]);
  expect(breaker.state).toBe("half-open");
  breaker.succeeded();
  expect([breaker.state, breaker.letThrough(1_000)]).toEqual(["closed", true]);
});

test("each failed try doubles the pause, up to 30 s", () => {
  const breaker = opened();
  let nowMs = 1_000;
  for (const pauseMs of [2_000, 4_000, 8_000, 16_000, 30_000, 30_000]) {
    expect(breaker.letThrough(nowMs)).toBe(true);
    breaker.failed(nowMs);
    expect(breaker.letThrough(nowMs + pauseMs - 1)).toBe(false);
    nowMs += pauseMs;
  }
});

test("an abandoned trial leaves its place to the next", () => {
  const breaker = opened();
  breaker.letThrough(1_000);
  breaker.abandoned();
  expect(breaker.letThrough(1_000)).toBe(true);
});

test("a trial that does not end keeps the others out for 5 s only", () => {
  const breaker = opened();
  expect(breaker.letThrough(1_000)).toBe(true);
  expect([breaker.letThrough(5_999), breaker.letThrough(6_000), breaker.letThrough(6_000)]).toEqual([
    false,
    true,
    false,
  ]);
  // It may have been open all the time.
  breaker.succeeded();
  expect([breaker.state, breaker.letThrough(6_000)]).toEqual(["closed", true]);
});

test("a call from before it opened that is abandoned late shortens no pause", () => {
  const breaker = opened();
  breaker.abandoned();
  expect(breaker.letThrough(999)).toBe(false);
});

test("what fails late, of calls from before it opened, does not lengthen the pause", () => {
  const breaker = opened();
  breaker.failed(900);
  expect(breaker.letThrough(1_000)).toBe(true);
});

test("at most two failures of a caller count, so that its failing request opens no circuit for others", () => {
  const breaker = new CircuitBreaker();
  for (let failure = 0; failure < 100; failure += 1) breaker.failed(0, "one");
  for (let failure = 0; failure < 100; failure += 1) breaker.failed(0, "another");
  expect(breaker.state).toBe("closed");
  breaker.failed(0, "a third");
  expect(breaker.state).toBe("open");
});

test("a caller whose failures count no more does not lengthen the pause, and leaves the try to the next", () => {
  const breaker = new CircuitBreaker();
  for (const caller of ["one", "one", "two", "two", "three"]) breaker.failed(0, caller);
  expect(breaker.letThrough(1_000)).toBe(true);
  breaker.failed(1_000, "one");
  expect(breaker.letThrough(1_000)).toBe(true);
});

test("a success starts the count of each caller anew", () => {
  const breaker = new CircuitBreaker();
  for (const caller of ["one", "one", "two", "two"]) breaker.failed(0, caller);
  breaker.succeeded();
  for (const caller of ["one", "one", "two", "two"]) breaker.failed(0, caller);
  expect(breaker.state).toBe("closed");
  breaker.failed(0, "three");
  expect(breaker.state).toBe("open");
});
