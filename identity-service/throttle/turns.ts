import { DomainError } from "../../service-kit/errors.ts";

const MAX_WAITING = 1_000;
const MAX_WAITING_FOR_ONE = 32;
const MAX_WAIT_MS = 1_000;

/** A FIFO mutex per key. */
export interface Turns {
  /** Returns the release function. Waits at most a second. @throws {DomainError} `busy`. */
  take(key: string, waitMs: number): Promise<() => void>;
}

export function createTurns(): Turns {
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

/** The same answer for existing and unknown accounts. */
export function tooLong(): DomainError {
  return new DomainError("busy", undefined, { retryAfterMs: 1_000 });
}
