import { readDatabaseClock } from "./clock-store.ts";
import type { Lifecycle } from "./lifecycle.ts";
import type { Logger } from "./logger.ts";
import type { Metrics } from "./metrics.ts";
import { openConnections, orUnavailable, type Sql } from "./postgres.ts";
import { repeat } from "./repeat.ts";

const LOOK_INTERVAL_MS = 5_000;
/** Beyond this, times that this process writes and those that another reads no longer mean the same. */
const MAX_SKEW_S = 2;

export interface WatchDatabaseOptions {
  sql: Sql;
  poolSize: number;
  metrics: Metrics;
  lifecycle: Pick<Lifecycle, "addReadinessCheck" | "onStop">;
  logger: Logger;
  /** Milliseconds since the epoch, by this process's clock. */
  now?: () => number;
}

/** What a look at the database's clock says about ours. */
interface Skew {
  /** Positive when the database is ahead. */
  seconds: number;
  /** Half of what the answer took: the database may have looked at its clock at any moment of it. */
  uncertaintyS: number;
}

/**
 * Follows how the process stands to its database: connections, how long a trivial statement takes (waiting for a
 * connection included), and the distance of the clocks, beyond 2 s of which the process is unready: what it signs would
 * carry wrong times. While the database cannot be asked nothing is known of its clock, and nothing is claimed.
 */
export function watchDatabase(options: WatchDatabaseOptions): { look: () => Promise<void> } {
  const { sql, poolSize, metrics, lifecycle, logger, now = Date.now } = options;
  let skew: Skew | undefined;
  metrics.gauge("gatehouse_database_connections", "Open connections to the database.", [], (gauge) =>
    gauge.set(openConnections(sql)),
  );
  metrics
    .gauge("gatehouse_database_connections_max", "Connections to the database that may be open.")
    .set(poolSize);
  const duration = metrics.histogram(
    "gatehouse_database_probe_seconds",
    "Duration of a trivial statement, the wait for a connection included.",
  );
  const failures = metrics.counter("gatehouse_database_probe_failures_total", "Such statements that failed.");
  metrics.gauge(
    "gatehouse_database_clock_skew_seconds",
    "How far the database's clock is ahead of the process's; NaN while unknown.",
    [],
    (gauge) => gauge.set(skew?.seconds ?? Number.NaN),
  );

  const look = async () => {
    const [startedMs, started] = [now(), performance.now()];
    try {
      const clock = await orUnavailable(readDatabaseClock(sql));
      const tookS = (performance.now() - started) / 1_000;
      duration.observe(tookS);
      skew = { seconds: (clock.getTime() - startedMs) / 1_000 - tookS / 2, uncertaintyS: tookS / 2 };
    } catch (error) {
      skew = undefined;
      failures.inc();
      throw error;
    }
  };
  lifecycle.addReadinessCheck("clock", () => {
    if (skew === undefined || Math.abs(skew.seconds) - skew.uncertaintyS <= MAX_SKEW_S) return;
    throw new Error(`the database's clock is ${skew.seconds.toFixed(1)} s ahead of ours`);
  });
  const looking = repeat("database clock", LOOK_INTERVAL_MS, look, logger);
  looking.runSoon();
  lifecycle.onStop("database clock", looking.stop);
  return { look };
}
