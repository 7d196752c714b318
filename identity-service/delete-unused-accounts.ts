import { newCallContext } from "../service-kit/call-context.ts";
import type { Sql, TransactionSql } from "../service-kit/postgres.ts";
import { transaction } from "../service-kit/postgres.ts";
import { eraseUser, lockUnusedAccounts } from "./account-store.ts";
import type { TellAuditDeps } from "./tell-audit.ts";
import { tellErasure } from "./tell-erasure.ts";

const DAY_MS = 24 * 3_600_000;
const MAX_BATCH = 100;

export interface DeleteUnusedAccountsDeps extends TellAuditDeps {
  sql: Sql;
  /** 0: none is deleted. */
  unusedAccountDays: number;
}

/**
 * Deletes accounts that are older than the configuration says and that nobody has ever proven the address of, logged in to
 * or linked: somebody else's address, mostly. Its owner can then register it. Any number of replicas may.
 */
export async function deleteUnusedAccounts(deps: DeleteUnusedAccountsDeps): Promise<void> {
  if (deps.unusedAccountDays === 0) return;
  const madeBefore = new Date(deps.now().getTime() - deps.unusedAccountDays * DAY_MS);
  const eraseBatch = (tx: TransactionSql) => erase(tx, deps, madeBefore);
  while ((await transaction(deps.sql, eraseBatch)) === MAX_BATCH);
}

async function erase(tx: TransactionSql, deps: DeleteUnusedAccountsDeps, madeBefore: Date): Promise<number> {
  const accounts = await lockUnusedAccounts(tx, madeBefore, MAX_BATCH);
  for (const account of accounts) {
    await tellErasure(tx, deps, account, { reason: "never proven, never used" }, newCallContext());
    await eraseUser(tx, account.id);
  }
  return accounts.length;
}
