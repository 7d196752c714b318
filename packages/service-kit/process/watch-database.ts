import { openConnections, readDatabaseClock, type Sql } from "../database/postgres.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { repeat } from "../telemetry/repeat.ts";
import { DomainError } from "../values/errors.ts";
import type { Lifecycle } from "./lifecycle.ts";

const LOOK_INTERVAL_MS = 5_000;
const MAX_SKEW_S = 2;

export interface WatchDatabaseOptions {
  sql: Sql;
  poolSize: number;
  metrics: Metrics;
  lifecycle: Pick<Lifecycle, "addReadinessCheck" | "onStop">;
  logger: Logger;
  /** Milliseconds since the epoch. */
  now?: () => number;
}

/** The monotonic clock reveals a step of the system clock. */
interface Look {
  /** Database time in epoch milliseconds, minus the monotonic clock. */
  aheadMs: number;
  /** Half of the round trip. */
  uncertaintyMs: number;
}

export interface DatabaseWatch {
  look: () => Promise<void>;
  /** @throws {DomainError} `service_unavailable` if the clocks differ by more than 2 s. */
  assertClock: () => void;
}

/** A skew makes the process unready. It is unknown without the database. */
export function watchDatabase(options: WatchDatabaseOptions): DatabaseWatch {
  const { sql, poolSize, metrics, lifecycle, logger, now = Date.now } = options;
  let newest: Look | undefined;
  /** Positive when the database is ahead. */
  const skewS = () => newest && (newest.aheadMs + performance.now() - now()) / 1_000;
  const isWithinBounds = () =>
    newest === undefined || Math.abs(skewS() ?? 0) - newest.uncertaintyMs / 1_000 <= MAX_SKEW_S;
  metrics.gauge("gatehouse_database_connections", "Open connections to the database.", [], (gauge) =>
    gauge.set(openConnections(sql)),
  );
  metrics
    .gauge("gatehouse_database_connections_max", "Maximum number of open database connections.")
    .set(poolSize);
  const duration = metrics.histogram(
    "gatehouse_database_probe_seconds",
    "Duration of a trivial statement, including the wait for a connection.",
  );
  const failures = metrics.counter("gatehouse_database_probe_failures_total", "Failed probe statements.");
  metrics.gauge(
    "gatehouse_database_clock_skew_seconds",
    "How far the database's clock is ahead of the process's; NaN while unknown.",
    [],
    (gauge) => gauge.set(skewS() ?? Number.NaN),
  );

  const look = async () => {
    const startedMs = performance.now();
    try {
      const clock = await readDatabaseClock(sql);
      const tookMs = performance.now() - startedMs;
      duration.observe(tookMs / 1_000);
      newest = { aheadMs: clock.getTime() - startedMs - tookMs / 2, uncertaintyMs: tookMs / 2 };
    } catch (error) {
      newest = undefined;
      failures.inc();
      throw error;
    }
  };
  lifecycle.addReadinessCheck("clock", () => {
    if (!isWithinBounds()) throw new Error(`the database's clock is ${skewS()?.toFixed(1)} s ahead of ours`);
  });
  const looking = repeat("database clock", LOOK_INTERVAL_MS, look, logger);
  looking.runSoon();
  lifecycle.onStop("database clock", looking.stop);
  return {
    look,
    assertClock() {
      if (isWithinBounds()) return;
      looking.runSoon(); // The measurement may be outdated after a suspend.
      throw new DomainError("service_unavailable", "The clock is wrong", { retryAfterMs: 1_000 });
    },
  };
}
