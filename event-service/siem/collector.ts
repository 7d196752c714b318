import { setTimeout as sleep } from "node:timers/promises";
import type { Logger } from "#kit/telemetry/logger.ts";
import { backOffMs } from "#kit/values/back-off.ts";
import type { Places } from "../stream/event-source.ts";
import type { CollectorName } from "./collector-store.ts";

const FIRST_PAUSE_MS = 1_000;
const MAX_PAUSE_MS = 60_000;
/** What a receiver may ask for. */
export const MAX_ASKED_PAUSE_MS = 300_000;

/** Why a receiver has not taken what it was sent. Safe to show. */
export class CollectorProblem extends Error {
  override readonly name = "CollectorProblem";
  /** The receiver asks to be left alone for so long. */
  readonly pauseMs: number;

  constructor(message: string, { cause, pauseMs = 0 }: { cause?: unknown; pauseMs?: number } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.pauseMs = pauseMs;
  }
}

/** Sends what is in the logs to one receiver. */
export interface Collector {
  name: CollectorName;
  /** Until the next look when there is nothing new. */
  idleMs: number;
  /**
   * Sends what comes after the places. Each of its waits has a deadline.
   * @param signal ends the run. @returns the new places once the receiver has it; undefined if there is nothing to send.
   * @throws if the receiver may not have it.
   */
  push(places: Places, signal: AbortSignal): Promise<Places | undefined>;
  close(): Promise<void>;
}

export interface CollectorRunDeps {
  collector: Collector;
  places: Places;
  /** False if the lease has ended. */
  save(places: Places): Promise<boolean>;
  saveProblem(problem: string): Promise<void>;
  onProgress(places: Places): void;
  signal: AbortSignal;
  random: () => number;
  logger: Logger;
}

/** Until the signal, or until the lease has ended. Never gives up. */
export async function runCollector(deps: CollectorRunDeps): Promise<void> {
  const { collector, signal, onProgress, random, logger } = deps;
  let { places } = deps;
  let failures = 0;
  const save = async (next: Places) => {
    if (!(await deps.save(next))) throw new LeaseEnded();
    places = next;
    onProgress(places);
  };
  while (!signal.aborted) {
    try {
      const next = await collector.push(places, signal);
      if (next !== undefined) await save(next);
      else if (failures > 0) await save(places);
      else onProgress(places);
      failures = 0;
      if (next === undefined) await pause(collector.idleMs, signal);
    } catch (error) {
      if (signal.aborted || error instanceof LeaseEnded) return;
      failures += 1;
      const problem = error instanceof CollectorProblem ? error.message : "the audit log or the database";
      logger.warn({ err: error, collector: collector.name, failures }, "entries are sent to the SIEM again");
      await deps.saveProblem(problem).catch(() => undefined);
      const askedMs = error instanceof CollectorProblem ? error.pauseMs : 0;
      const backMs = backOffMs({
        attempt: Math.min(failures, 10),
        firstMs: FIRST_PAUSE_MS,
        maxMs: MAX_PAUSE_MS,
        random: random(),
      });
      await pause(Math.max(backMs, askedMs), signal);
    }
  }
}

class LeaseEnded extends Error {
  override readonly name = "LeaseEnded";
}

/** Ends at the signal. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await sleep(ms, undefined, { signal }).catch(() => undefined);
}
