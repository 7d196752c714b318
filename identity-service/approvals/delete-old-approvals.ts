import type { Sql } from "#kit/database/postgres.ts";
import { deleteUnusedApprovals, deleteUsedApprovals } from "./approval-store.ts";

const KEEP_UNUSED_MS = 24 * 3_600_000;
const MAX_BATCH = 1_000;

/** Evidence of a used approval stays as long as its entries in the audit log, which loses whole months (UTC). */
export async function deleteOldApprovals(deps: {
  sql: Sql;
  now: () => Date;
  /** Full months beside the current one. 0: evidence of used approvals is kept without end. */
  approvalRetentionMonths: number;
}): Promise<void> {
  const { sql, approvalRetentionMonths: months } = deps;
  const now = deps.now();
  const endedBefore = new Date(now.getTime() - KEEP_UNUSED_MS);
  while ((await deleteUnusedApprovals(sql, endedBefore, MAX_BATCH)) === MAX_BATCH);
  if (months === 0) return;
  const usedBefore = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - months));
  while ((await deleteUsedApprovals(sql, usedBefore, MAX_BATCH)) === MAX_BATCH);
}
