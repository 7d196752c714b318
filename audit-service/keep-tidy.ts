import type { Sql } from "../service-kit/postgres.ts";
import { deleteOldKeys } from "./entry-store.ts";
import { deleteOldProducers } from "./intent-store.ts";
import { createPartitions, hasStrayEntries } from "./retention-store.ts";

export const MONTHS_AHEAD = 3;
const DEDUPLICATION_MS = 31 * 24 * 60 * 60_000;
const KEYS_AT_ONCE = 5_000;
const MAX_ROUNDS = 200;

/**
 * What the log's tables need now and then: partitions ahead of time, and nothing kept for telling repetitions that are
 * older than 31 days.
 *
 * @returns whether entries lie outside the monthly partitions.
 * @throws {DomainError} `service_unavailable`.
 */
export async function keepTidy(sql: Sql, now: Date): Promise<{ hasStrayEntries: boolean }> {
  await createPartitions(sql, MONTHS_AHEAD);
  const before = new Date(now.getTime() - DEDUPLICATION_MS);
  for (let round = 0; round < MAX_ROUNDS; round += 1) {
    if ((await deleteOldKeys(sql, before, KEYS_AT_ONCE)) < KEYS_AT_ONCE) break;
  }
  await deleteOldProducers(sql);
  return { hasStrayEntries: await hasStrayEntries(sql) };
}
