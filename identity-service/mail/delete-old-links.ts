import type { Sql } from "#kit/database/postgres.ts";
import { deleteEndedLinks } from "./link-store.ts";

/** Must exceed the hour in which links are counted. */
const KEEP_ENDED_MS = 24 * 3_600_000;
const MAX_BATCH = 1_000;

export async function deleteOldLinks(deps: { sql: Sql; now: () => Date }): Promise<void> {
  const endedBefore = new Date(deps.now().getTime() - KEEP_ENDED_MS);
  while ((await deleteEndedLinks(deps.sql, endedBefore, MAX_BATCH)) === MAX_BATCH);
}
