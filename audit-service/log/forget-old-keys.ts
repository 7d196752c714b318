import type { Sql } from "../../service-kit/postgres.ts";
import { createKeyPartitions, deleteOldKeys, dropKeyPartitions } from "../entries/entry-store.ts";

const DAYS_AHEAD = 3;
/** How long after its day an entry that is sent again is known. */
const DEDUPLICATION_DAYS = 31;
const KEYS_AT_ONCE = 5_000;
const DAY_MS = 24 * 60 * 60_000;

/**
 * Forgets keys of entries of more than 31 days ago: whole days at once, what is in no day's table in batches until
 * none is left.
 *
 * @throws what the database says; then the next call goes on.
 */
export async function forgetOldKeys({
  sql,
  now,
  isStopped,
}: {
  sql: Sql;
  now: Date;
  isStopped: () => boolean;
}): Promise<void> {
  await createKeyPartitions(sql, DAYS_AHEAD);
  await dropKeyPartitions(sql, DEDUPLICATION_DAYS);
  const before = new Date(now.getTime() - DEDUPLICATION_DAYS * DAY_MS);
  while (!isStopped()) {
    if ((await deleteOldKeys(sql, before, KEYS_AT_ONCE)) < KEYS_AT_ONCE) return;
  }
}
