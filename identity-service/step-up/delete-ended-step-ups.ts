import type { Sql } from "#kit/database/postgres.ts";
import { deleteEndedStepUps } from "./step-up-store.ts";

const MAX_BATCH = 1_000;

/** An ended step-up answers as an unknown one. */
export async function deleteOldStepUps(deps: { sql: Sql; now: () => Date }): Promise<void> {
  while ((await deleteEndedStepUps(deps.sql, deps.now(), MAX_BATCH)) === MAX_BATCH);
}
