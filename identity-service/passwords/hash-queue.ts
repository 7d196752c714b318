import { DomainError } from "../../service-kit/errors.ts";
import type { Metrics } from "../../service-kit/metrics.ts";

/** What a call still needs after its turn has come: a hash, the database, the session. */
const RESERVE_MS = 200;

const RETRY_AFTER_MS = 1_000;

export interface HashQueueOptions {
  /** How many run at once. */
  concurrency: number;
  /** How many may wait. */
  maxWaiting: number;
  /** How long one may wait. */
  maxWaitMs: number;
  /** Milliseconds since the epoch. */
  now: () => number;
  metrics: Metrics;
}

/** Decides when a password may be hashed. */
export interface HashQueue {
  /**
   * Runs the work when its turn comes, first come first served.
   *
   * @param deadlineMs when the caller's answer is useless, in milliseconds since the epoch. Waiting ends
   *   200 ms before, so that there is time left to answer. Work that has begun is not cut.
   * @throws {DomainError} `busy` if too many wait already, or the wait got too long.
   */
  run<T>(work: () => Promise<T>, deadlineMs: number): Promise<T>;
}

/**
 * Bounds the hashes that run and that wait: each takes a core and a thread of libuv's pool for its time, and
 * 19 MiB and up of memory. Beyond the bounds, refusing at once serves more people than letting all wait.
 */
export function createHashQueue(options: HashQueueOptions): HashQueue {
  const { concurrency, maxWaiting, maxWaitMs, now, metrics } = options;
  const waiting: (() => void)[] = [];
  let running = 0;

  metrics.gauge("gatehouse_password_hashes_running", "Password hashes being computed.", [], (gauge) =>
    gauge.set(running),
  );
  metrics.gauge("gatehouse_password_hashes_waiting", "Password hashes waiting for a turn.", [], (gauge) =>
    gauge.set(waiting.length),
  );
  const wait = metrics.histogram(
    "gatehouse_password_hash_wait_seconds",
    "How long password hashes waited for their turn.",
  );
  const rejected = metrics.counter(
    "gatehouse_password_hashes_rejected_total",
    "Password hashes refused as busy.",
    ["reason"],
  );

  function refuse(reason: "queue_full" | "wait_too_long"): DomainError {
    rejected.inc({ reason });
    return new DomainError("busy", undefined, { retryAfterMs: RETRY_AFTER_MS });
  }

  function turn(deadlineMs: number): Promise<void> {
    if (running < concurrency) {
      running += 1;
      return Promise.resolve();
    }
    const waitMs = Math.min(maxWaitMs, deadlineMs - now() - RESERVE_MS);
    if (waiting.length >= maxWaiting) return Promise.reject(refuse("queue_full"));
    if (waitMs <= 0) return Promise.reject(refuse("wait_too_long"));
    return new Promise((resolve, reject) => {
      const begin = () => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.splice(waiting.indexOf(begin), 1);
        reject(refuse("wait_too_long"));
      }, waitMs);
      waiting.push(begin);
    });
  }

  /** Hands the turn on; `running` changes only when nobody waits, so that no newcomer slips in between. */
  function done(): void {
    const next = waiting.shift();
    if (next === undefined) running -= 1;
    else next();
  }

  return {
    async run(work, deadlineMs) {
      const askedMs = performance.now();
      await turn(deadlineMs);
      wait.observe((performance.now() - askedMs) / 1_000);
      try {
        return await work();
      } finally {
        done();
      }
    },
  };
}
