import type { Sql } from "#kit/database/postgres.ts";
import { createKeyPartitions, deleteOldKeys, dropKeyPartitions } from "../entries/entry-store.ts";

const DAYS_AHEAD = 3;
const DEDUPLICATION_DAYS = 31;
const KEYS_AT_ONCE = 5_000;
const DAY_MS = 24 * 60 * 60_000;

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
