import type { Sql } from "#kit/database/postgres.ts";
import { deleteExpired } from "../identities/oauth-store.ts";

const MAX_BATCH = 1_000;

export async function deleteExpiredOAuth(deps: { sql: Sql; now: () => Date }): Promise<void> {
  while ((await deleteExpired(deps.sql, deps.now(), MAX_BATCH)) >= MAX_BATCH);
}
