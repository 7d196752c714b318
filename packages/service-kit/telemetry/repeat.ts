import { backOffMs } from "../values/back-off.ts";
import { withCalls } from "../values/call-deadline.ts";
import type { Logger } from "./logger.ts";

export interface Repetition {
  runSoon: () => void;
  /** Waits for the running task. */
  stop: () => Promise<void>;
}

/** Runs never overlap, and belong to no call, even if one has asked for them. Pauses vary by 10 %. Failures are logged. */
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
  const run = () => {
    isRunning = true;
    isWanted = false;
    running = withCalls([], task)
      .catch((error: unknown) => logger.warn({ err: error, task: name }, "a repeated task failed"))
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
