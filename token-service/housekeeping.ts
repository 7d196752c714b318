import type { Logger } from "../service-kit/logger.ts";
import type { Sql } from "../service-kit/postgres.ts";
import { deleteExpiredRevocations } from "./revocation-store.ts";
import { deleteSessionsEndedBefore } from "./session-store.ts";

export interface HousekeepingDeps {
  sql: Sql;
  now: () => Date;
  logger: Logger;
}

const MAX_BATCH = 1_000;
const MAX_BATCHES = 50;
/** Ended sessions are kept a day, for whoever asks what happened. */
const KEEP_ENDED_SESSIONS_MS = 24 * 3_600_000;
/** Far beyond any difference of clocks. */
const KEEP_EXPIRED_REVOCATIONS_MS = 3_600_000;

/** Deletes what has expired, in batches that block nobody; a long backlog goes on at the next run. */
export async function cleanUp(deps: HousekeepingDeps): Promise<void> {
  const nowMs = deps.now().getTime();
  const endedBefore = new Date(nowMs - KEEP_ENDED_SESSIONS_MS);
  const sessions = await inBatches(() => deleteSessionsEndedBefore(deps.sql, endedBefore, MAX_BATCH));
  const expiredBefore = new Date(nowMs - KEEP_EXPIRED_REVOCATIONS_MS);
  const revocations = await inBatches(() => deleteExpiredRevocations(deps.sql, expiredBefore, MAX_BATCH));
  if (sessions + revocations > 0) deps.logger.info({ sessions, revocations }, "expired rows deleted");
}

async function inBatches(deleteBatch: () => Promise<number>): Promise<number> {
  let total = 0;
  for (let batch = 0; batch < MAX_BATCHES; batch += 1) {
    const deleted = await deleteBatch();
    total += deleted;
    if (deleted < MAX_BATCH) break;
  }
  return total;
}
