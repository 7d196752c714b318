import type { Sql } from "#kit/database/postgres.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { deleteDeliveredEvents } from "../events/security-event-store.ts";
import { deleteExpiredRevocations } from "../revocations/revocation-store.ts";
import { sweepSessions } from "../rows/session-store.ts";

export interface HousekeepingDeps {
  sql: Sql;
  /** @throws while the database's clock may be wrong. */
  assertClock: () => void;
  logger: Logger;
}

const MAX_BATCH = 1_000;
const MAX_BATCHES = 100;

export async function cleanUp(deps: HousekeepingDeps, cursor?: string): Promise<string | undefined> {
  deps.assertClock();
  let position = cursor;
  let sessions = 0;
  for (let batch = 0; batch < MAX_BATCHES; batch += 1) {
    const swept = await sweepSessions(deps.sql, position, MAX_BATCH);
    position = swept.cursor;
    sessions += swept.deleted;
    if (position === undefined) break;
  }
  const revocations = await inBatches(() => deleteExpiredRevocations(deps.sql, MAX_BATCH));
  const events = await inBatches(() => deleteDeliveredEvents(deps.sql, MAX_BATCH));
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
