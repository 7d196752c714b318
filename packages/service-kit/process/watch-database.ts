import { openConnections, readDatabaseClock, type Sql } from "../database/postgres.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { repeat } from "../telemetry/repeat.ts";
import { DomainError } from "../values/errors.ts";
import type { Lifecycle } from "./lifecycle.ts";

const LOOK_INTERVAL_MS = 5_000;
const MAX_SKEW_S = 2;

export interface WatchDatabasesOptions {
  /** A process that is ready has the first one. The others have a number, the label `part`. */
  databases: readonly { sql: Sql; part?: number }[];
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

export function watchDatabase({
  sql,
  ...options
}: Omit<WatchDatabasesOptions, "databases"> & { sql: Sql }): DatabaseWatch {
  return watchDatabases({ ...options, databases: [{ sql }] })[0] as DatabaseWatch;
}

/** A skew of the first makes the process unready. It is unknown without the database. */
export function watchDatabases(options: WatchDatabasesOptions): DatabaseWatch[] {
  const { databases, poolSize, metrics, lifecycle } = options;
  const duration = metrics.histogram(
    "gatehouse_database_probe_seconds",
    "Duration of a trivial statement, including the wait for a connection.",
    ["part"],
  );
  const failures = metrics.counter("gatehouse_database_probe_failures_total", "Failed probe statements.", [
    "part",
  ]);
  const watches = databases.map(({ sql, part }) => {
    const labels = part === undefined ? {} : { part: String(part) };
    const onLook = (tookMs: number | undefined) =>
      tookMs === undefined ? failures.inc(labels) : duration.observe(labels, tookMs / 1_000);
    return { sql, labels, ...watchClock(sql, onLook, options) };
  });
  metrics.gauge("gatehouse_database_connections", "Open connections to the database.", ["part"], (gauge) => {
    for (const { sql, labels } of watches) gauge.set(labels, openConnections(sql));
  });
  const most = metrics.gauge(
    "gatehouse_database_connections_max",
    "Maximum number of open database connections.",
    ["part"],
  );
  for (const { labels } of watches) most.set(labels, poolSize);
  metrics.gauge(
    "gatehouse_database_clock_skew_seconds",
    "How far the database's clock is ahead of the process's, at least; NaN while unknown.",
    ["part"],
    (gauge) => {
      for (const { labels, skewS } of watches) gauge.set(labels, skewS() ?? Number.NaN);
    },
  );
  const [first] = watches;
  lifecycle.addReadinessCheck("clock", () => {
    if (first && !first.isWithinBounds())
      throw new Error(`the database's clock is ${first.skewS()?.toFixed(1)} s ahead of ours`);
  });
  return watches;
}

/** @param onLook with how long it took; undefined: it failed. */
function watchClock(
  sql: Sql,
  onLook: (tookMs: number | undefined) => void,
  { lifecycle, logger, now = Date.now }: WatchDatabasesOptions,
) {
  let newest: Look | undefined;
  /** At least: nearer to 0 by what is uncertain, because the first look may wait long for its connection. Positive when the database is ahead. */
  const skewS = () => {
    if (newest === undefined) return undefined;
    const aheadMs = newest.aheadMs + performance.now() - now();
    return (Math.sign(aheadMs) * Math.max(0, Math.abs(aheadMs) - newest.uncertaintyMs)) / 1_000;
  };
  const isWithinBounds = () => Math.abs(skewS() ?? 0) <= MAX_SKEW_S;
  const look = async () => {
    const startedMs = performance.now();
    try {
      const clock = await readDatabaseClock(sql);
      const tookMs = performance.now() - startedMs;
      onLook(tookMs);
      newest = { aheadMs: clock.getTime() - startedMs - tookMs / 2, uncertaintyMs: tookMs / 2 };
    } catch (error) {
      newest = undefined;
      onLook(undefined);
      throw error;
    }
  };
  const looking = repeat("database clock", LOOK_INTERVAL_MS, look, logger);
  looking.runSoon();
  lifecycle.onStop("database clock", looking.stop);
  return {
    look,
    skewS,
    isWithinBounds,
    assertClock() {
      if (isWithinBounds()) return;
      looking.runSoon(); // The measurement may be outdated after a suspend.
      throw new DomainError("service_unavailable", "The clock is wrong", { retryAfterMs: 1_000 });
    },
  };
}
