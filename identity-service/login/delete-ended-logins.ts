import type { Sql } from "#kit/database/postgres.ts";
import { deleteEndedChallenges } from "../mfa/mfa-store.ts";
import { deleteEndedTrusts } from "../throttle/trusted-device-store.ts";
import { deleteEndedEnrollments } from "./enrollment-store.ts";
import { deleteEndedPasswordChanges } from "./password-change-store.ts";

const KEEP_ENDED_MS = 24 * 3_600_000;
const MAX_BATCH = 1_000;

export async function deleteEndedLogins(deps: { sql: Sql; now: () => Date }): Promise<void> {
  const endedBefore = new Date(deps.now().getTime() - KEEP_ENDED_MS);
  const batches = [
    deleteEndedChallenges,
    deleteEndedPasswordChanges,
    deleteEndedEnrollments,
    deleteEndedTrusts,
  ];
  for (const deleteBatch of batches) {
    while ((await deleteBatch(deps.sql, endedBefore, MAX_BATCH)) === MAX_BATCH);
  }
}
