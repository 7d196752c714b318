import { type OpenCall, openCalls, withCalls } from "./call-deadline.ts";
import { DomainError } from "./errors.ts";

const MAX_WAITING = 1_000;
const MAX_WAITING_FOR_ONE = 32;
const MAX_WAIT_MS = 1_000;

/** A FIFO mutex per key. */
export interface Turns {
  /** Returns the release function. Waits at most a second. @throws {DomainError} */
  take(key: string, waitMs: number): Promise<() => void>;
}

/** @param refuse when the queue is full, or the wait too long. */
export function createTurns(maxWaitingForOne = MAX_WAITING_FOR_ONE, refuse = tooLong): Turns {
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
      if (waitMs <= 0 || queue.length >= maxWaitingForOne || waiting >= MAX_WAITING) throw refuse();
      waiting += 1;
      try {
        await inQueue(queue, Math.min(waitMs, MAX_WAIT_MS), refuse);
      } finally {
        waiting -= 1;
      }
      return release;
    },
  };
}

function inQueue(queue: (() => void)[], waitMs: number, refuse: () => DomainError): Promise<void> {
  return new Promise((resolve, reject) => {
    const begin = () => {
      clearTimeout(timer);
      resolve();
    };
    const timer = setTimeout(() => {
      queue.splice(queue.indexOf(begin), 1);
      reject(refuse());
    }, waitMs);
    queue.push(begin);
  });
}

/** The same answer for existing and unknown accounts. */
export function tooLong(): DomainError {
  return new DomainError("busy", undefined, { retryAfterMs: 1_000 });
}

/** A slow service makes one wait for oneself, too, so it is not the caller's fault. */
export function tooManyAtOnce(): DomainError {
  return new DomainError("service_unavailable", "Earlier calls of the same caller are not done", {
    retryAfterMs: 1_000,
  });
}

/** A FIFO mutex per key, in which the same work waits once. */
export interface SharedTurns {
  /**
   * Runs as long as one of its callers waits. Work that has begun is not shared any more: what happened meanwhile counts
   * for those who come later. @throws {DomainError} `service_unavailable`.
   */
  share<T>(key: string, what: string, work: () => Promise<T>): Promise<T>;
}

export function createSharedTurns(maxWaitingForOne: number): SharedTurns {
  const turns = createTurns(maxWaitingForOne, tooManyAtOnce);
  const waiting = new Map<string, { done: Promise<unknown>; callers: OpenCall[] }>();

  async function begin<T>(key: string, what: string, work: () => Promise<T>): Promise<T> {
    const release = await turns.take(key, MAX_WAIT_MS);
    waiting.delete(what);
    try {
      return await work();
    } finally {
      release();
    }
  }

  return {
    share<T>(key: string, what: string, work: () => Promise<T>) {
      const shared = waiting.get(what);
      if (shared !== undefined) {
        shared.callers.push(...openCalls());
        return shared.done as Promise<T>;
      }
      const callers = [...openCalls()];
      const done = withCalls(callers, () => begin(key, what, work));
      const own = { done, callers };
      waiting.set(what, own);
      const forget = () => {
        if (waiting.get(what) === own) waiting.delete(what);
      };
      done.then(forget, forget);
      return done;
    },
  };
}
