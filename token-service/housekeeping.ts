import type { Logger } from "../service-kit/logger.ts";
import type { Sql } from "../service-kit/postgres.ts";
import { deleteExpiredRevocations } from "./revocation-store.ts";
import { deleteDeliveredEvents } from "./security-event-store.ts";
import { sweepSessions } from "./session-store.ts";

export interface HousekeepingDeps {
  sql: Sql;
  now: () => Date;
  logger: Logger;
}

const MAX_BATCH = 1_000;
/** A run looks at no more: a hundred thousand sessions a minute. */
const MAX_BATCHES = 100;
/** Sessions are kept a day beyond their idle end, however they ended, for whoever asks what happened. */
const KEEP_ENDED_SESSIONS_MS = 24 * 3_600_000;
/** Delivered events are kept a day, like the sessions that they speak of. */
const KEEP_DELIVERED_EVENTS_MS = 24 * 3_600_000;
/** Far beyond any difference of clocks. */
const KEEP_EXPIRED_REVOCATIONS_MS = 3_600_000;

/**
 * Deletes what has expired, in batches that block nobody; a long backlog goes on at the next run.
 *
 * @param cursor where the sweep over the sessions goes on; undefined to begin.
 * @returns where the next run's sweep goes on.
 */
export async function cleanUp(deps: HousekeepingDeps, cursor?: string): Promise<string | undefined> {
  const nowMs = deps.now().getTime();
  const endedBefore = new Date(nowMs - KEEP_ENDED_SESSIONS_MS);
  let position = cursor;
  let sessions = 0;
  for (let batch = 0; batch < MAX_BATCHES; batch += 1) {
    const swept = await sweepSessions(deps.sql, endedBefore, position, MAX_BATCH);
    position = swept.cursor;
    sessions += swept.deleted;
    if (position === undefined) break;
  }
  const expiredBefore = new Date(nowMs - KEEP_EXPIRED_REVOCATIONS_MS);
  const revocations = await inBatches(() => deleteExpiredRevocations(deps.sql, expiredBefore, MAX_BATCH));
  const deliveredBefore = new Date(nowMs - KEEP_DELIVERED_EVENTS_MS);
  const events = await inBatches(() => deleteDeliveredEvents(deps.sql, deliveredBefore, MAX_BATCH));
  if (sessions + revocations + events > 0)
    deps.logger.info({ sessions, revocations, events }, "expired rows deleted");
  return position;
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
