import { DomainError } from "../../service-kit/errors.ts";

const MAX_WAITING = 1_000;
const MAX_WAITING_FOR_ONE = 32;
const MAX_WAIT_MS = 1_000;

/** One at a time of those with the same key, first come first served. */
export interface Turns {
  /**
   * @param waitMs how long to wait, at most a second.
   * @returns to be called once, when the turn is over.
   * @throws {DomainError} `busy` if the wait got too long, or too many wait.
   */
  take(key: string, waitMs: number): Promise<() => void>;
}

/** In this process. */
export function createTurns(): Turns {
  /** Who waits for each key that is taken. */
  const queues = new Map<string, (() => void)[]>();
  let waiting = 0;

  function done(key: string): void {
    const next = queues.get(key)?.shift();
    if (next === undefined) queues.delete(key);
    else next();
  }

  return {
    async take(key, waitMs) {
      const release = () => done(key);
      const queue = queues.get(key);
      if (queue === undefined) {
        queues.set(key, []);
        return release;
      }
      if (waitMs <= 0 || queue.length >= MAX_WAITING_FOR_ONE || waiting >= MAX_WAITING) throw tooLong();
      waiting += 1;
      try {
        await inQueue(queue, Math.min(waitMs, MAX_WAIT_MS));
      } finally {
        waiting -= 1;
      }
      return release;
    },
  };
}

function inQueue(queue: (() => void)[], waitMs: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const begin = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      queue.splice(queue.indexOf(begin), 1);
      reject(tooLong());
    }, waitMs);
    queue.push(begin);
  });
}

/** Said to whoever waits for anything of an account, whether it exists or not. */
export function tooLong(): DomainError {
  return new DomainError("busy", undefined, { retryAfterMs: 1_000 });
}
