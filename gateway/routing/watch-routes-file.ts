import { watchTextFile } from "#kit/config/watch-text-file.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { Repetition } from "#kit/telemetry/repeat.ts";
import { parseRoutesFile } from "#routes-file/routes-file.ts";
import type { ProxyTable } from "./proxy-table.ts";

const LOOK_EVERY_MS = 2_000;

export interface RoutesWatchOptions {
  path: string;
  text: string;
  proxies: Pick<ProxyTable, "replace">;
  /** Passed to `parseRoutesFile`. */
  hosts: ReadonlySet<string>;
  logger: Logger;
  metrics: Metrics;
  lookEveryMs?: number;
  read?: (path: string) => Promise<string>;
}

/** Ignores invalid files. */
export function watchRoutesFile({
  path,
  text,
  proxies,
  hosts,
  logger,
  metrics,
  ...options
}: RoutesWatchOptions): Repetition {
  const reloads = metrics.counter("gatehouse_routes_reloads_total", "Changes of the routes file by result.", [
    "result",
  ]);
  // An alert counts from the first time on.
  reloads.inc({ result: "refused" }, 0);
  return watchTextFile({
    path,
    text,
    what: "routes file",
    take: (changed) => proxies.replace(parseRoutesFile(changed, hosts)),
    onLook: (result) => reloads.inc({ result }),
    lookEveryMs: options.lookEveryMs ?? LOOK_EVERY_MS,
    logger,
    ...(options.read && { read: options.read }),
  });
}
