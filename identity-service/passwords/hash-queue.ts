import type { Metrics } from "#kit/telemetry/metrics.ts";
import { DomainError } from "#kit/values/errors.ts";

/** For the call, after its turn. */
const RESERVE_MS = 200;

const RETRY_AFTER_MS = 1_000;

export interface HashQueueOptions {
  concurrency: number;
  maxWaiting: number;
  maxWaitMs: number;
  now: () => number;
  metrics: Metrics;
}

export interface HashQueue {
  /** FIFO. Stops waiting 200 ms before `deadlineMs` (since the epoch). @throws {DomainError} `busy` if full or late. */
  run<T>(work: () => Promise<T>, deadlineMs: number): Promise<T>;
}

/** Each hash takes a core, a libuv thread and at least 19 MiB. */
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

  /** Passes the slot on, so that no newcomer overtakes. */
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
