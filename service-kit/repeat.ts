import type { Logger } from "./logger.ts";

/** A task that runs again and again. */
export interface Repetition {
  /** Runs the task as soon as it is not running, ahead of its time. */
  runSoon: () => void;
  /** Ends the repetition, once the running task has ended. */
  stop: () => Promise<void>;
}

/**
 * Runs a task again and again, never two at once, the pauses varied by a tenth so that replicas drift apart. A failure
 * is logged and does not end the repetition.
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
  const run = () => {
    isRunning = true;
    isWanted = false;
    running = task()
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

/** Tries until it succeeds, with growing pauses up to `maxPauseMs`: for what a process cannot start without. */
export async function untilSuccess<T>(
  name: string,
  attempt: () => Promise<T>,
  logger: Logger,
  maxPauseMs = 2_000,
): Promise<T> {
  for (let pauseMs = 100; ; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
    try {
      return await attempt();
    } catch (error) {
      logger.warn({ err: error, task: name }, "not possible yet; trying again");
      await new Promise((resolve) => setTimeout(resolve, pauseMs * (0.8 + Math.random() * 0.4)));
    }
  }
}
