import { watchTextFile } from "#kit/config/watch-text-file.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import type { Repetition } from "#kit/telemetry/repeat.ts";
import { type AccessFile, parseAccessFile } from "./access-file.ts";
import type { AccessTable } from "./access-rules.ts";

/** A change is in force within a second. */
const LOOK_EVERY_MS = 500;

export interface AccessWatchOptions {
  path: string;
  text: string;
  table: Pick<AccessTable, "replace">;
  logger: Logger;
  metrics: Metrics;
  /** @throws as a start with this file would. Undefined where every valid file fits. */
  assertFits: ((access: AccessFile) => void) | undefined;
  lookEveryMs?: number;
}

/** Ignores invalid files. */
export function watchAccessFile({
  path,
  text,
  table,
  logger,
  metrics,
  assertFits,
  ...options
}: AccessWatchOptions): Repetition {
  const reloads = metrics.counter("gatehouse_access_reloads_total", "Changes of the access file by result.", [
    "result",
  ]);
  const refused = metrics.gauge(
    "gatehouse_access_file_refused",
    "1 while the access file cannot be used and an earlier one is in force.",
  );
  refused.set(0);
  return watchTextFile({
    path,
    text,
    what: "access file",
    take(changed) {
      const access = parseAccessFile(changed);
      assertFits?.(access);
      table.replace(access);
    },
    onLook: (result) => {
      reloads.inc({ result });
      refused.set(result === "refused" ? 1 : 0);
    },
    lookEveryMs: options.lookEveryMs ?? LOOK_EVERY_MS,
    logger,
  });
}
