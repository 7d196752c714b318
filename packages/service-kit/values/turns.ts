import { type OpenCall, openCalls, withCalls } from "./call-deadline.ts";
import { DomainError } from "./errors.ts";

const MAX_WAITING = 1_000;
const MAX_WAITING_FOR_ONE = 32;
const MAX_WAIT_MS = 1_000;

/** A FIFO semaphore per key; a mutex if nothing else is said. */
export interface Turns {
  /** Returns the release function. @throws {DomainError} */
  take(key: string, waitMs: number): Promise<() => void>;
}

interface TurnsOptions {
  /** How many of one key have their turn at the same time. */
  atOnce?: number;
  maxWaitingForOne?: number;
  /** Of all keys. */
  maxWaiting?: number;
  /** However long a caller would wait. */
  maxWaitMs?: number;
  /** When the queue is full, or the wait too long. */
  refuse?: () => DomainError;
}

export function createTurns(options: TurnsOptions = {}): Turns {
  const { atOnce = 1, maxWaitingForOne = MAX_WAITING_FOR_ONE, maxWaitMs = MAX_WAIT_MS } = options;
  const { maxWaiting = MAX_WAITING, refuse = tooLong } = options;
  const lines = new Map<string, { held: number; queue: (() => void)[] }>();
  let waiting = 0;

  function done(key: string): void {
    const line = lines.get(key);
    const next = line?.queue.shift();
    if (next !== undefined) next();
    else if (line !== undefined && line.held > 1) line.held -= 1;
    else lines.delete(key);
  }

  return {
    async take(key, waitMs) {
      const release = () => done(key);
      const line = lines.get(key);
      if (line === undefined) {
        lines.set(key, { held: 1, queue: [] });
        return release;
      }
      if (line.held < atOnce) {
        line.held += 1;
        return release;
      }
      if (waitMs <= 0 || line.queue.length >= maxWaitingForOne || waiting >= maxWaiting) throw refuse();
      waiting += 1;
      try {
        await inQueue(line.queue, Math.min(waitMs, maxWaitMs), refuse);
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
  const turns = createTurns({ maxWaitingForOne, refuse: tooManyAtOnce });
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
