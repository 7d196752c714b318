import type { Sql } from "#kit/database/postgres.ts";
import { atMost, type Logger } from "#kit/telemetry/logger.ts";
import { type Repetition, repeat } from "#kit/telemetry/repeat.ts";
import { createKeyPartitions, deleteOldKeys, dropKeyPartitions } from "../entries/entry-store.ts";
import { deleteOldProducers } from "../intake/intent-store.ts";
import type { CheckpointSigner } from "./checkpoint.ts";
import { cleanUpRemovals, removeOldPartitions } from "./remove-old-partitions.ts";
import { createLeafPartitions, createPartitions, hasStrayEntries } from "./retention-store.ts";
import { SEQUENCER_INTERVAL_MS, type Sequencer } from "./sequencer.ts";

const MONTHS_AHEAD = 3;
const TIDY_INTERVAL_MS = 60 * 60_000;
const MAX_FAILURES_LOGGED = 1;
const FAILURES_PER_MS = 5_000;
/** After a step that found nothing: the next one is 600 ms later, within the 3 s of the session. */
const SKIPPED_AT_REST = 3;
const LOOK_FOR_OTHERS_MS = 5_000;
/** 2 s, in which the other one takes the log. */
const SKIPPED_FOR_OTHER = 13;
/** If it does not. */
const KEPT_MS = 60_000;

/**
 * The returned function releases the task for another replica.
 * @param isForAnother whether another replica is there that should number the log. @throws if that one could not begin.
 */
export function runSequencer(
  sequencer: Pick<Sequencer, "status" | "step" | "stop">,
  logger: Logger,
  isForAnother?: () => Promise<boolean>,
): () => Promise<void> {
  const logFailure = atMost(MAX_FAILURES_LOGGED, FAILURES_PER_MS, (facts: object) =>
    logger.warn(facts, "the audit log cannot be numbered now"),
  );
  let skips = 0;
  let looksAtMs = performance.now() + LOOK_FOR_OTHERS_MS;
  async function leaveToAnother(): Promise<boolean> {
    if (isForAnother === undefined || performance.now() < looksAtMs) return false;
    looksAtMs = performance.now() + LOOK_FOR_OTHERS_MS;
    if (!sequencer.status.isSequencer || !(await isForAnother())) return false;
    await sequencer.stop();
    skips = SKIPPED_FOR_OTHER;
    looksAtMs = performance.now() + KEPT_MS;
    return true;
  }
  const repetition: Repetition = repeat(
    "sequencer",
    SEQUENCER_INTERVAL_MS,
    async () => {
      if (skips > 0) {
        skips -= 1;
        return;
      }
      const { size: before } = sequencer.status;
      try {
        const hasMore = await sequencer.step();
        if (await leaveToAnother()) return;
        if (hasMore) return repetition.runSoon();
        const { size, checkpointSize } = sequencer.status;
        if (size === before && checkpointSize === size) skips = SKIPPED_AT_REST;
      } catch (error) {
        logFailure({ err: error });
      }
    },
    logger,
  );
  return async () => {
    await repetition.stop();
    await sequencer.stop();
  };
}

/** Below the 15 s after which a silent connection ends. */
export const MAINTENANCE_SESSION = { statement_timeout: 10_000 } as const;

interface MaintenanceDeps {
  sql: Sql;
  signer: CheckpointSigner;
  sequencer: Pick<Sequencer, "status">;
  retentionMonths: number;
  setStray: (hasStray: boolean) => void;
  onFailure: () => void;
  now: () => Date;
  logger: Logger;
}

export function runMaintenance(deps: MaintenanceDeps): () => Promise<void> {
  const { sql, logger, sequencer } = deps;
  let isStopping = false;
  const isStopped = () => isStopping;
  const tasks: [name: string, work: () => Promise<unknown>][] = [
    ["partitions", () => createPartitions(sql, MONTHS_AHEAD)],
    ["partitions of leaves", () => createLeafPartitions(sql)],
    ["keys", () => forgetOldKeys({ sql, isStopped })],
    ["producers", () => deleteOldProducers(sql)],
    ["stray entries", async () => deps.setStray(await hasStrayEntries(sql))],
    ["retention", async () => sequencer.status.isSequencer && removeOldPartitions(deps)],
    ["removals", async () => sequencer.status.isSequencer && cleanUpRemovals({ sql, isStopped })],
  ];
  const repetition = repeat(
    "audit log maintenance",
    TIDY_INTERVAL_MS,
    async () => {
      for (const [task, work] of tasks) {
        if (isStopping) return;
        try {
          await work();
        } catch (error) {
          deps.onFailure();
          logger.error(
            { err: error, task },
            "a maintenance task of the audit log failed; it will be retried",
          );
        }
      }
    },
    logger,
  );
  repetition.runSoon();
  return () => {
    isStopping = true;
    return repetition.stop();
  };
}

const DAYS_AHEAD = 3;
const DEDUPLICATION_DAYS = 31;
const KEYS_AT_ONCE = 5_000;

export async function forgetOldKeys({
  sql,
  isStopped,
}: {
  sql: Sql;
  isStopped: () => boolean;
}): Promise<void> {
  await createKeyPartitions(sql, DAYS_AHEAD);
  await dropKeyPartitions(sql, DEDUPLICATION_DAYS);
  while (!isStopped()) {
    if ((await deleteOldKeys(sql, DEDUPLICATION_DAYS, KEYS_AT_ONCE)) < KEYS_AT_ONCE) return;
  }
}
