import { backOffMs } from "../values/back-off.ts";
import { withCalls } from "../values/call-deadline.ts";
import type { Logger } from "./logger.ts";

export interface Repetition {
  runSoon: () => void;
  /** Waits for the running task. */
  stop: () => Promise<void>;
}

/** A task that fails several times a second must not fill the log. */
const SAID_AGAIN_MS = 60_000;

/**
 * Runs never overlap, and belong to no call, even if one has asked for them. Pauses vary by 10 %. A failure is logged, once a
 * minute while it is the same, and so is the first success after it.
 */
export function repeat(
  name: string,
  intervalMs: number,
  task: () => Promise<void>,
  logger: Logger,
): Repetition {
  let isStopped = false;
  let isRunning = false;
  let isWanted = false;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();

  const schedule = (pauseMs: number) => {
    clearTimeout(timer);
    timer = setTimeout(run, pauseMs);
    timer.unref();
  };
  const log = failureLog(name, logger);
  const run = () => {
    isRunning = true;
    isWanted = false;
    running = withCalls([], task)
      .then(log.succeeded, log.failed)
      .finally(() => {
        isRunning = false;
        if (!isStopped) schedule(isWanted ? 0 : intervalMs * (0.9 + Math.random() * 0.2));
      });
  };
  schedule(intervalMs);

  return {
    runSoon() {
      isWanted = true;
      if (!isRunning && !isStopped) schedule(0);
    },
    async stop() {
      isStopped = true;
      clearTimeout(timer);
      await running;
    },
  };
}

function failureLog(task: string, logger: Logger) {
  let failures = 0;
  let said = { what: "", atMs: 0 };
  return {
    succeeded() {
      if (failures > 0) logger.info({ task, failures }, "a repeated task succeeds again");
      failures = 0;
      said = { what: "", atMs: 0 };
    },
    failed(error: unknown) {
      failures += 1;
      const what = String(error);
      const nowMs = performance.now();
      if (what === said.what && nowMs - said.atMs < SAID_AGAIN_MS) return;
      said = { what, atMs: nowMs };
      logger.warn({ err: error, task, failures }, "a repeated task failed");
    },
  };
}

export async function untilSuccess<T>(
  name: string,
  task: () => Promise<T>,
  logger: Logger,
  maxPauseMs = 2_000,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await task();
    } catch (error) {
      logger.warn({ err: error, task: name }, "task failed; retrying");
      const pauseMs = backOffMs({ attempt, firstMs: 100, maxMs: maxPauseMs, random: Math.random() });
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }
}
