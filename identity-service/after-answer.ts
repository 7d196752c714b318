import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";

/** Work that begins when the call that asked for it has been answered: its time tells the caller nothing. */
export interface AfterAnswer {
  /**
   * @param work what fails is logged, and nobody is told.
   * @throws {DomainError} `busy`, whatever the work, if too much waits already.
   */
  run(name: string, work: () => Promise<void>): void;
  /** Resolves when what was asked for is done. */
  drained(): Promise<void>;
}

export interface AfterAnswerOptions {
  /** Waiting and running together. */
  maxPending: number;
  logger: Logger;
}

const CONCURRENCY = 2;

export function createAfterAnswer({ maxPending, logger }: AfterAnswerOptions): AfterAnswer {
  const waiting: (() => Promise<void>)[] = [];
  let workers = 0;
  let pending = 0;
  let onEmpty: (() => void)[] = [];

  const drain = async () => {
    for (let work = waiting.shift(); work !== undefined; work = waiting.shift()) {
      await work();
      pending -= 1;
    }
    workers -= 1;
    if (pending > 0) return;
    for (const tell of onEmpty) tell();
    onEmpty = [];
  };
  return {
    run(name, work) {
      if (pending >= maxPending)
        throw new DomainError("busy", "Too much is waiting; try again.", { retryAfterMs: 1_000 });
      pending += 1;
      waiting.push(() =>
        work().catch((error: unknown) =>
          logger.error({ err: error, task: name }, "work after an answer failed"),
        ),
      );
      if (workers >= CONCURRENCY) return;
      workers += 1;
      // Behind the answer, which is written in this turn of the event loop.
      setImmediate(drain);
    },
    drained: () => (pending === 0 ? Promise.resolve() : new Promise((resolve) => onEmpty.push(resolve))),
  };
}
