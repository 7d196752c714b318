import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { createHashQueue } from "./hash-queue.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const FAR_MS = 10_000;
const BUSY = expect.objectContaining({ name: "DomainError", code: "busy", retryAfterMs: 1_000 });

function setUp({ concurrency = 2, maxWaiting = 3, maxWaitMs = 1_000 } = {}) {
  const metrics = createMetrics("test");
  const queue = createHashQueue({ concurrency, maxWaiting, maxWaitMs, now: Date.now, metrics });
  const begun: string[] = [];
  /** Starts work that runs until it is asked to end. */
  const start = (name: string, deadlineMs = Date.now() + FAR_MS) => {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const work = () => {
      begun.push(name);
      return promise;
    };
    const result = queue.run(work, deadlineMs);
    // Refusals are looked at later than they happen.
    result.catch(() => undefined);
    return { result, end: () => resolve(name), fail: () => reject(new Error(name)) };
  };
  const metric = async (line: string) => {
    const text = await metrics.render();
    return text
      .split("\n")
      .find((candidate) => candidate.startsWith(line))
      ?.split(" ")
      .at(-1);
  };
  return { start, begun, metric };
}

const settle = () => vi.advanceTimersByTimeAsync(0);

test("no more than the limit run at once, the others first come first served", async () => {
  const { start, begun } = setUp();
  const jobs = ["a", "b", "c", "d"].map((name) => start(name));
  await settle();
  expect(begun).toEqual(["a", "b"]);

  jobs[1]?.end();
  await settle();
  expect(begun).toEqual(["a", "b", "c"]);

  for (const job of jobs) job.end();
  expect(await Promise.all(jobs.map((job) => job.result))).toEqual(["a", "b", "c", "d"]);
});

test("work that fails hands its turn on and is reported as it failed", async () => {
  const { start, begun } = setUp({ concurrency: 1 });
  const first = start("first");
  const second = start("second");
  first.fail();
  await expect(first.result).rejects.toThrow("first");
  await settle();
  expect(begun).toEqual(["first", "second"]);
  second.end();
  await expect(second.result).resolves.toBe("second");
});

test("one more than may wait is refused at once, and finds room later", async () => {
  const { start, metric } = setUp({ concurrency: 1, maxWaiting: 2 });
  const jobs = ["a", "b", "c"].map((name) => start(name));
  await expect(start("d").result).rejects.toEqual(BUSY);
  expect(await metric("gatehouse_password_hashes_waiting")).toBe("2");
  expect(await metric('gatehouse_password_hashes_rejected_total{reason="queue_full"')).toBe("1");

  jobs[0]?.end();
  await settle();
  const later = start("e");
  for (const job of [...jobs, later]) job.end();
  await expect(later.result).resolves.toBe("e");
});

test("work that has waited for the maximum is refused and never runs", async () => {
  const { start, begun, metric } = setUp({ concurrency: 1, maxWaitMs: 500 });
  const running = start("running");
  const waiting = start("waiting");
  await vi.advanceTimersByTimeAsync(499);
  expect(await metric("gatehouse_password_hashes_waiting")).toBe("1");
  await vi.advanceTimersByTimeAsync(1);
  await expect(waiting.result).rejects.toEqual(BUSY);
  expect(await metric("gatehouse_password_hashes_waiting")).toBe("0");
  expect(await metric('gatehouse_password_hashes_rejected_total{reason="wait_too_long"')).toBe("1");

  running.end();
  await settle();
  expect(begun).toEqual(["running"]);
  expect(await metric("gatehouse_password_hashes_running")).toBe("0");
});

test("waiting ends while there is still time to answer before the call's deadline", async () => {
  const { start } = setUp({ concurrency: 1 });
  start("running");
  let refusedAfterMs: number | undefined;
  const startedMs = Date.now();
  start("waiting", startedMs + 700).result.catch(() => {
    refusedAfterMs = Date.now() - startedMs;
  });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(refusedAfterMs).toBe(500);
});

test("with its deadline near, a call does not wait, but takes a free turn", async () => {
  const { start, begun } = setUp({ concurrency: 1 });
  const first = start("first", Date.now() + 50);
  await expect(start("second", Date.now() + 150).result).rejects.toEqual(BUSY);
  first.end();
  await first.result;
  expect(begun).toEqual(["first"]);
});

test("a storm leaves nothing behind: afterwards as many run as before", async () => {
  const { start, begun, metric } = setUp({ concurrency: 2, maxWaiting: 5, maxWaitMs: 100 });
  const storm = Array.from({ length: 200 }, (_, index) => start(`s${index}`));
  await vi.advanceTimersByTimeAsync(200);
  for (const job of storm) job.end();
  await Promise.allSettled(storm.map((job) => job.result));
  expect(begun).toEqual(["s0", "s1"]);
  expect(await metric("gatehouse_password_hashes_running")).toBe("0");

  start("x");
  start("y");
  start("z");
  await settle();
  expect(begun).toEqual(["s0", "s1", "x", "y"]);
});

test("work without a deadline waits as long as any other", async () => {
  const { start } = setUp({ concurrency: 1, maxWaitMs: 300 });
  start("running");
  const waiting = start("waiting", Number.POSITIVE_INFINITY);
  await vi.advanceTimersByTimeAsync(300);
  await expect(waiting.result).rejects.toEqual(BUSY);
});
