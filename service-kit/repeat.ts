import type { Logger } from "./logger.ts";

/**
 * Runs a task again and again, never two at once, the pause between varied by a fifth so that replicas drift
 * apart. A failure is logged and does not end the repetition.
 *
 * @returns stops it, once the running task has ended.
 */
export function repeat(
  name: string,
  intervalMs: number,
  task: () => Promise<void>,
  logger: Logger,
): () => Promise<void> {
  let isStopped = false;
  let timer: NodeJS.Timeout | undefined;
  let running: Promise<void> = Promise.resolve();
  const schedule = () => {
    timer = setTimeout(run, intervalMs * (0.9 + Math.random() * 0.2));
    timer.unref();
  };
  const run = () => {
    running = task()
      .catch((error: unknown) => logger.warn({ err: error, task: name }, "a repeated task failed"))
      .finally(() => {
        if (!isStopped) schedule();
      });
  };
  schedule();
  return async () => {
    isStopped = true;
    clearTimeout(timer);
    await running;
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
