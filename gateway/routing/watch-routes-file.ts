import { readFile } from "node:fs/promises";
import { parseRoutesFile } from "../../routes-file/routes-file.ts";
import type { Logger } from "../../service-kit/logger.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import { type Repetition, repeat } from "../../service-kit/repeat.ts";
import type { ProxyTable } from "./proxy-table.ts";

const LOOK_EVERY_MS = 2_000;

export interface RoutesWatchOptions {
  path: string;
  text: string;
  proxies: Pick<ProxyTable, "replace">;
  logger: Logger;
  metrics: Metrics;
  lookEveryMs?: number;
}

/** Polls, because watchers may miss a ConfigMap's change of links. Ignores invalid files. */
export function watchRoutesFile(options: RoutesWatchOptions): Repetition {
  const { path, proxies, logger } = options;
  const reloads = options.metrics.counter(
    "gatehouse_routes_reloads_total",
    "Changes of the routes file by result.",
    ["result"],
  );
  let seen = options.text;
  const look = async () => {
    const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => `\0${error.code}`);
    if (text === seen) return;
    seen = text;
    try {
      if (text.startsWith("\0")) throw new Error(`the routes file cannot be read (${text.slice(1)})`);
      proxies.replace(parseRoutesFile(text));
      logger.info("the routes file has changed: its routes are in use");
      reloads.inc({ result: "taken" });
    } catch (error) {
      reloads.inc({ result: "refused" });
      const reason = error instanceof Error ? error.message : String(error);
      logger.error({ reason }, "the routes file has changed and cannot be used: the previous routes stay");
    }
  };
  return repeat("routes file", options.lookEveryMs ?? LOOK_EVERY_MS, look, logger);
}
