import { atMost } from "../service-kit/at-most.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Sql } from "../service-kit/postgres.ts";
import { type Repetition, repeat } from "../service-kit/repeat.ts";
import type { CheckpointSigner } from "./checkpoint.ts";
import { keepTidy } from "./keep-tidy.ts";
import { removeOldPartitions } from "./remove-old-partitions.ts";
import { SEQUENCER_INTERVAL_MS, type Sequencer } from "./sequencer.ts";

const TIDY_INTERVAL_MS = 60 * 60_000;
const MAX_FAILURES_LOGGED = 1;
const FAILURES_PER_MS = 5_000;

/** Runs the sequencer. @returns to be called to leave the task to another replica. */
export function runSequencer(sequencer: Sequencer, logger: Logger): () => Promise<void> {
  const logFailure = atMost(MAX_FAILURES_LOGGED, FAILURES_PER_MS, (facts: object) =>
    logger.warn(facts, "the audit log cannot be numbered now"),
  );
  const repetition: Repetition = repeat(
    "sequencer",
    SEQUENCER_INTERVAL_MS,
    async () => {
      try {
        if (await sequencer.step()) repetition.runSoon();
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

interface MaintenanceDeps {
  sql: Sql;
  signer: CheckpointSigner;
  sequencer: Sequencer;
  retentionMonths: number;
  setStray: (hasStray: boolean) => void;
  now: () => Date;
  logger: Logger;
}

/** Makes partitions ahead and removes old ones, at once and every hour. @returns to be called at the end. */
export function runMaintenance(deps: MaintenanceDeps): () => Promise<void> {
  const { sql, now, logger, sequencer } = deps;
  const repetition = repeat(
    "audit log maintenance",
    TIDY_INTERVAL_MS,
    async () => {
      deps.setStray((await keepTidy(sql, now())).hasStrayEntries);
      if (sequencer.status.isSequencer) await removeOldPartitions(deps);
    },
    logger,
  );
  repetition.runSoon();
  return () => repetition.stop();
}
