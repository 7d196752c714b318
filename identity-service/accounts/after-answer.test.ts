import { expect, test } from "vitest";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createAfterAnswer } from "../mail/after-answer.ts";

function afterAnswer(maxPending: number) {
  const lines: string[] = [];
  const logger = createLogger("test", "info", { write: (line) => void lines.push(line) });
  return { after: createAfterAnswer({ maxPending, logger }), lines };
}

test("work begins after the call that asked for it, in order, and all of it is done when drained", async () => {
  const { after } = afterAnswer(100);
  const done: number[] = [];
  for (let index = 0; index < 10; index += 1) after.run("test", async () => void done.push(index));
  await Promise.resolve();
  expect(done).toEqual([]);
  await after.drained();
  expect(done).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  await after.drained();
});

test("failed work is logged and does not stop the queue", async () => {
  const { after, lines } = afterAnswer(100);
  let isDone = false;
  after.run("first", () => Promise.reject(new Error("no")));
  after.run("second", async () => {
    isDone = true;
  });
  await after.drained();
  expect(isDone).toBe(true);
  expect(lines.join("")).toContain('"task":"first"');
});

test("strangers beyond their bound get busy, and known callers beyond theirs", async () => {
  const { after } = afterAnswer(3);
  const run = (isKnown: boolean) => after.run("test", async () => undefined, isKnown);
  expect(after.isFull).toBe(false);
  for (let index = 0; index < 3; index += 1) run(false);
  expect(after.isFull).toBe(true);
  expect(() => run(false)).toThrow(expect.objectContaining({ code: "busy" }));
  for (let index = 0; index < 3; index += 1) run(true);
  expect(() => run(true)).toThrow(expect.objectContaining({ code: "busy" }));
  await after.drained();
  expect(after.isFull).toBe(false);
  run(false);
  run(true);
  await after.drained();
});

test("known callers' work goes before that of strangers, and the last of either drains", async () => {
  const { after } = afterAnswer(10);
  const done: string[] = [];
  for (const name of ["stranger 1", "stranger 2"]) after.run("test", async () => void done.push(name));
  after.run("test", async () => void done.push("known"), true);
  await after.drained();
  expect(done).toEqual(["known", "stranger 1", "stranger 2"]);
});
