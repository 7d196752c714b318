import { pino } from "pino";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Sql } from "#kit/database/postgres.ts";
import { INITIAL_STATUS, signer } from "#tests/support/system/audit-sequencer.ts";
import { runMaintenance, runSequencer } from "./maintain-log.ts";
import type { Sequencer, SequencerStatus } from "./sequencer.ts";

const HOUR_MS = 3_600_000;

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

const status = (isSequencer: boolean): SequencerStatus => ({ ...INITIAL_STATUS, isSequencer });

/** A sequencer with the given step. Without sizes, its log has grown with each look at it. */
function sequencerOf(step: () => Promise<boolean>, sizes?: { size: number; checkpointSize: number }) {
  let size = 0;
  return {
    get status() {
      size += 1;
      return { ...status(true), ...(sizes ?? { size, checkpointSize: size }) };
    },
    step: vi.fn(step),
    stop: vi.fn(async () => {}),
  } satisfies Pick<Sequencer, "status" | "step" | "stop">;
}

/** A logger that keeps its lines in memory. */
function keptLog() {
  const lines: Record<string, unknown>[] = [];
  const logger = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  return { logger, lines };
}

test("the sequencer steps every 150 ms, and at once while there is more to do", async () => {
  let left = 3;
  const sequencer = sequencerOf(async () => --left > 0);
  const stop = runSequencer(sequencer, keptLog().logger);
  await vi.advanceTimersByTimeAsync(134);
  expect(sequencer.step).toHaveBeenCalledTimes(0);
  await vi.advanceTimersByTimeAsync(40);
  expect(sequencer.step).toHaveBeenCalledTimes(3);
  await vi.advanceTimersByTimeAsync(166);
  expect(sequencer.step).toHaveBeenCalledTimes(4);
  await stop();
});

test("a sequencer at rest steps every 600 ms, and every 150 ms again as soon as it has numbered something", async () => {
  const log = { size: 5, checkpointSize: 5 };
  let arriving = 0;
  const sequencer = sequencerOf(async () => {
    log.size += arriving;
    log.checkpointSize = log.size;
    return false;
  }, log);
  const stop = runSequencer(sequencer, keptLog().logger);
  await vi.advanceTimersByTimeAsync(6_000);
  expect(sequencer.step.mock.calls.length).toBeGreaterThanOrEqual(9);
  expect(sequencer.step.mock.calls.length).toBeLessThanOrEqual(12);
  arriving = 1;
  await vi.advanceTimersByTimeAsync(660);
  const before = sequencer.step.mock.calls.length;
  await vi.advanceTimersByTimeAsync(1_650);
  expect(sequencer.step.mock.calls.length - before).toBeGreaterThanOrEqual(10);
  await stop();
});

test("a log is left to the replica that should number it, and kept for a minute if that one does not take it", async () => {
  let isHeld = true;
  const sequencer = {
    get status() {
      return { ...status(isHeld), size: 5, checkpointSize: 5 };
    },
    // Also a log that always has more entries.
    step: vi.fn(async () => {
      isHeld = true;
      return sequencer.step.mock.calls.length % 3 !== 0;
    }),
    stop: vi.fn(async () => {
      isHeld = false;
    }),
  };
  const isForAnother = vi.fn(async () => true);
  const stop = runSequencer(sequencer, keptLog().logger, isForAnother);
  await vi.advanceTimersByTimeAsync(4_900);
  expect(isForAnother).not.toHaveBeenCalled();
  while (sequencer.stop.mock.calls.length === 0) await vi.advanceTimersByTimeAsync(10);
  const steps = sequencer.step.mock.calls.length;
  // Thirteen pauses of at least 134 ms.
  await vi.advanceTimersByTimeAsync(1_700);
  expect(sequencer.step.mock.calls.length).toBe(steps);
  await vi.advanceTimersByTimeAsync(56_000);
  expect(sequencer.step.mock.calls.length).toBeGreaterThan(steps);
  expect(sequencer.stop).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(5_000);
  expect(sequencer.stop).toHaveBeenCalledTimes(2);
  isForAnother.mockResolvedValue(false);
  await vi.advanceTimersByTimeAsync(180_000);
  isForAnother.mockRejectedValue(new Error("log 0 is away"));
  await vi.advanceTimersByTimeAsync(180_000);
  expect(sequencer.stop).toHaveBeenCalledTimes(2);
  await stop();
});

test("while numbered entries wait for a checkpoint, or steps fail, the sequencer does not rest", async () => {
  const unsigned = sequencerOf(async () => false, { size: 5, checkpointSize: 4 });
  const failing = sequencerOf(() => Promise.reject(new Error("away")), { size: 5, checkpointSize: 5 });
  const stops = [unsigned, failing].map((each) => runSequencer(each, keptLog().logger));
  await vi.advanceTimersByTimeAsync(1_650);
  for (const { step } of [unsigned, failing]) expect(step.mock.calls.length).toBeGreaterThanOrEqual(10);
  for (const stop of stops) await stop();
});

test("a failed step is retried, and logged once in five seconds", async () => {
  const sequencer = sequencerOf(() => Promise.reject(new Error("away")));
  const { logger, lines } = keptLog();
  const stop = runSequencer(sequencer, logger);
  await vi.advanceTimersByTimeAsync(4_000);
  expect(sequencer.step.mock.calls.length).toBeGreaterThan(20);
  expect(lines).toMatchObject([{ err: { message: "away" } }]);
  await stop();
});

test("stopping releases the sequencer for another replica after the running step", async () => {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const sequencer = sequencerOf(() => promise);
  const stop = runSequencer(sequencer, keptLog().logger);
  await vi.advanceTimersByTimeAsync(200);
  const stopping = stop();
  await vi.advanceTimersByTimeAsync(0);
  expect(sequencer.stop).not.toHaveBeenCalled();
  resolve(false);
  await stopping;
  expect(sequencer.stop).toHaveBeenCalledOnce();
});

/** The upkeep on a database that answers so; `tasks` are those that failed. */
function upkeepOn(query: () => Promise<unknown>, isSequencer = true) {
  const { logger, lines } = keptLog();
  const onFailure = vi.fn();
  const stop = runMaintenance({
    sql: query as unknown as Sql,
    signer,
    sequencer: { status: status(isSequencer) },
    retentionMonths: 1,
    setStray: () => expect.unreachable(),
    onFailure,
    now: () => new Date(),
    logger,
  });
  return { stop, onFailure, tasks: () => lines.map(({ task }) => task) };
}

const refuse = () => Promise.reject(new Error("refused"));
const OF_ALL = ["partitions", "partitions of leaves", "keys", "producers", "stray entries"];

test("maintenance runs all tasks at once and every hour; each failure is logged and stops no other task", async () => {
  const upkeep = upkeepOn(refuse);
  await vi.advanceTimersByTimeAsync(0.85 * HOUR_MS);
  const round = [...OF_ALL, "retention", "removals"];
  expect(upkeep.tasks()).toEqual(round);
  expect(upkeep.onFailure).toHaveBeenCalledTimes(round.length);
  await vi.advanceTimersByTimeAsync(0.3 * HOUR_MS);
  expect(upkeep.tasks()).toEqual([...round, ...round]);
  await upkeep.stop();
});

test("only the replica that numbers the log removes months", async () => {
  const upkeep = upkeepOn(refuse, false);
  await vi.advanceTimersByTimeAsync(0);
  expect(upkeep.tasks()).toEqual(OF_ALL);
  await upkeep.stop();
});

test("maintenance stops after the running task", async () => {
  const upkeep = upkeepOn(() => {
    void upkeep.stop();
    return refuse();
  });
  await vi.advanceTimersByTimeAsync(2 * HOUR_MS);
  expect(upkeep.tasks()).toEqual(["partitions"]);
});

test("maintenance stops within a task that always finds more to do", async () => {
  let queries = 0;
  const upkeep = upkeepOn(async () => {
    queries += 1;
    if (queries === 50) void upkeep.stop();
    if (queries > 100) throw new Error("the task goes on");
    return Object.assign([{}], { count: 5_000 });
  });
  await vi.advanceTimersByTimeAsync(0);
  expect(queries).toBeGreaterThanOrEqual(50);
  expect(upkeep.tasks()).toEqual([]);
});
