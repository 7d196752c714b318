import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError } from "#kit/values/errors.ts";

/** Runs work after the answer, so that its duration reveals nothing. */
export interface AfterAnswer {
  /**
   * Known callers have their own queue, which goes first.
   * @throws {DomainError} `busy` if it is full.
   */
  run(name: string, work: () => Promise<void>, isKnown?: boolean): void;
  /** For unknown callers. */
  readonly isFull: boolean;
  drained(): Promise<void>;
}

export interface AfterAnswerOptions {
  /** Per queue, including running work. */
  maxPending: number;
  logger: Logger;
}

const CONCURRENCY = 2;

interface Queue {
  waiting: (() => Promise<void>)[];
  pending: number;
}

export function createAfterAnswer({ maxPending, logger }: AfterAnswerOptions): AfterAnswer {
  const known: Queue = { waiting: [], pending: 0 };
  const strangers: Queue = { waiting: [], pending: 0 };
  let workers = 0;
  let onEmpty: (() => void)[] = [];
  const isEmpty = () => known.pending + strangers.pending === 0;
  const nextQueue = () => [known, strangers].find(({ waiting }) => waiting.length > 0);

  const drain = async () => {
    for (let queue = nextQueue(); queue !== undefined; queue = nextQueue()) {
      await queue.waiting.shift()?.();
      queue.pending -= 1;
    }
    workers -= 1;
    if (!isEmpty()) return;
    for (const resolve of onEmpty) resolve();
    onEmpty = [];
  };
  return {
    run(name, work, isKnown = false) {
      const queue = isKnown ? known : strangers;
      if (queue.pending >= maxPending)
        throw new DomainError("busy", "Too many requests are waiting; try again.", { retryAfterMs: 1_000 });
      queue.pending += 1;
      queue.waiting.push(() =>
        work().catch((error: unknown) =>
          logger.error({ err: error, task: name }, "work after an answer failed"),
        ),
      );
      if (workers >= CONCURRENCY) return;
      workers += 1;
      // The answer is written in this turn of the event loop.
      setImmediate(drain);
    },
    get isFull() {
      return strangers.pending >= maxPending;
    },
    drained: () => (isEmpty() ? Promise.resolve() : new Promise((resolve) => onEmpty.push(resolve))),
  };
}
