import { pino } from "pino";
import { expect, test } from "vitest";
import { callTimeLeftMs, withCallDeadline } from "../values/call-deadline.ts";
import { repeat, untilSuccess } from "./repeat.ts";

const logger = pino({ level: "silent" });
const tick = () => new Promise((resolve) => setTimeout(resolve, 1));

test("a task that fails is run again, and never beside itself", async () => {
  let runs = 0;
  let atOnce = 0;
  let most = 0;
  const repetition = repeat(
    "t",
    1,
    async () => {
      runs += 1;
      atOnce += 1;
      most = Math.max(most, atOnce);
      await tick();
      atOnce -= 1;
      if (runs === 2) throw new Error("no");
    },
    logger,
  );
  await expect.poll(() => runs, { interval: 1 }).toBeGreaterThan(4);
  await repetition.stop();
  const after = runs;
  await tick();
  expect([most, runs]).toEqual([1, after]);
});

test("a failure is logged once while it is the same, and its end", async () => {
  const lines: { msg: string; failures: number }[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line)) });
  let runs = 0;
  const task = async () => {
    runs += 1;
    if (runs <= 20) throw new Error(runs <= 10 ? "refused" : "late");
  };
  const repetition = repeat("t", 1, task, log);
  await expect.poll(() => runs).toBeGreaterThan(21);
  await repetition.stop();
  expect(lines.map(({ msg, failures }) => [msg, failures])).toEqual([
    ["a repeated task failed", 1],
    ["a repeated task failed", 11],
    ["a repeated task succeeds again", 20],
  ]);
});

test("runSoon() runs a task early, also while it is running", async () => {
  let runs = 0;
  let finish = () => {};
  const repetition = repeat(
    "t",
    3_600_000,
    () => {
      runs += 1;
      return new Promise((resolve) => {
        finish = resolve;
      });
    },
    logger,
  );
  repetition.runSoon();
  await expect.poll(() => runs, { interval: 1 }).toBe(1);
  repetition.runSoon();
  finish();
  await expect.poll(() => runs, { interval: 1 }).toBe(2);
  finish();
  await repetition.stop();
});

test("a task that a call has woken goes on without the call's deadline, and without its caller", async () => {
  const timesLeft: (number | undefined)[] = [];
  const repetition = repeat("t", 3_600_000, async () => void timesLeft.push(callTimeLeftMs()), logger);
  const call = Promise.withResolvers<void>();
  const served = withCallDeadline(
    Date.now() + 60_000,
    () => {
      repetition.runSoon();
      return call.promise;
    },
    { aborted: true },
  );
  await expect.poll(() => timesLeft.length, { interval: 1 }).toBe(1);
  expect(timesLeft).toEqual([undefined]);
  call.resolve();
  await served;
  await repetition.stop();
});

test("a failing attempt is repeated until it succeeds", async () => {
  let attempts = 0;
  const attempt = async () => {
    attempts += 1;
    if (attempts < 3) throw new Error("not yet");
    return "done";
  };
  await expect(untilSuccess("t", attempt, logger, 1)).resolves.toBe("done");
});
