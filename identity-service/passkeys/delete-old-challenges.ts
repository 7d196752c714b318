import type { Sql } from "#kit/database/postgres.ts";
import { deleteExpiredChallenges } from "./passkey-challenge-store.ts";

const MAX_BATCH = 1_000;

export async function deleteOldChallenges(deps: { sql: Sql; now: () => Date }): Promise<void> {
  while ((await deleteExpiredChallenges(deps.sql, deps.now(), MAX_BATCH)) === MAX_BATCH);
}
