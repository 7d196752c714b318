import { randomUUID } from "node:crypto";
import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Places } from "../stream/event-source.ts";
import { type Collector, CollectorProblem, runCollector } from "./collector.ts";
import {
  type CollectorLease,
  type CollectorName,
  claimCollector,
  releaseCollector,
  renewCollector,
  savePlaces,
  saveProblem,
} from "./collector-store.ts";
import type { EntryReader } from "./entry-reader.ts";

const LEASE_MS = 10_000;
/** A run ends before another replica may begin. */
const HOLD_MS = 7_000;

/** For one run, which has the lease. */
export type OpenCollector = (lease: CollectorLease) => Collector;

export interface CollectorsDeps {
  sql: Sql;
  /** The configured ones. Opened anew for each run. */
  open: ReadonlyMap<CollectorName, OpenCollector>;
  reader: EntryReader;
  now: () => Date;
  random: () => number;
  logger: Logger;
}

interface Run {
  lease: CollectorLease;
  end: AbortController;
  deadline: NodeJS.Timeout;
  places: Places;
  lastSuccessMs: number;
  done: Promise<void>;
}

/** The collectors of the operator's SIEM. Each runs in one replica at a time. */
export class Collectors {
  readonly #deps: CollectorsDeps;
  readonly #runs = new Map<CollectorName, Run>();

  constructor(deps: CollectorsDeps) {
    this.#deps = deps;
  }

  /** To be repeated: holds on to its own, and takes what nobody holds. @throws the first failure, after all were tried. */
  async beat(): Promise<void> {
    const beats = [...this.#deps.open].map(([name, open]) => this.#beatOf(name, open));
    const failed = (await Promise.allSettled(beats)).find(({ status }) => status === "rejected");
    if (failed?.status === "rejected") throw failed.reason;
  }

  async #beatOf(name: CollectorName, open: OpenCollector): Promise<void> {
    const running = this.#runs.get(name);
    if (running === undefined) await this.#claim(name, open);
    else if (await renewCollector(this.#deps.sql, running.lease)) running.deadline.refresh();
    else running.end.abort();
  }

  async stop(): Promise<void> {
    const runs = [...this.#runs.values()];
    for (const { end } of runs) end.abort();
    await Promise.all(runs.map(({ done }) => done));
    await Promise.all(runs.map(({ lease }) => releaseCollector(this.#deps.sql, lease)));
  }

  /** Of those that run here: entries that the receiver does not have yet, and since when it has taken none. */
  get lags(): { collector: CollectorName; entries: number; seconds: number }[] {
    const nowMs = this.#deps.now().getTime();
    return [...this.#runs].map(([collector, { places, lastSuccessMs }]) => ({
      collector,
      entries: this.#deps.reader.countAfter(places),
      seconds: Math.max(nowMs - lastSuccessMs, 0) / 1_000,
    }));
  }

  async #claim(name: CollectorName, open: OpenCollector): Promise<void> {
    const { sql, now, random, logger } = this.#deps;
    const lease = { name, holder: randomUUID(), leaseMs: LEASE_MS };
    const end = new AbortController();
    const deadline = setTimeout(() => end.abort(), HOLD_MS).unref();
    const stored = await claimCollector(sql, lease);
    if (stored === undefined) return clearTimeout(deadline);
    const collector = openedWhenPossible(name, () => open(lease));
    const { places, failingSince } = stored;
    const lastSuccessMs = (failingSince ?? now()).getTime();
    const run: Run = { lease, end, deadline, places, lastSuccessMs, done: Promise.resolve() };
    this.#runs.set(name, run);
    const running = runCollector({
      ...{ collector, places, signal: end.signal, random, logger },
      save: (next) => savePlaces(sql, lease, next),
      saveProblem: (problem) => saveProblem(sql, lease, problem),
      onProgress(next) {
        Object.assign(run, { places: next, lastSuccessMs: now().getTime() });
      },
    });
    run.done = running.finally(() => {
      clearTimeout(deadline);
      this.#runs.delete(name);
      return collector.close();
    });
  }
}

/** A file that it needs may be away: a problem like any other, which is shown, and ends when the file is back. */
function openedWhenPossible(name: CollectorName, open: () => Collector): Collector {
  let opened: Collector | undefined;
  const collector = () => {
    try {
      opened ??= open();
      return opened;
    } catch (cause) {
      throw new CollectorProblem("its settings cannot be used", { cause });
    }
  };
  return {
    name,
    get idleMs() {
      return collector().idleMs;
    },
    push: async (places, signal) => collector().push(places, signal),
    close: async () => opened?.close(),
  };
}
