import { newCallContext } from "../../service-kit/call-context.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { transaction } from "../../service-kit/postgres.ts";
import { type EndSessionsDeps, endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { eraseUser, lockUnusedAccounts } from "../users/account-store.ts";
import { tellErasure } from "../users/tell-erasure.ts";

const DAY_MS = 24 * 3_600_000;
const MAX_BATCH = 100;

export interface DeleteUnusedAccountsDeps extends EndSessionsDeps {
  /** Zero disables the deletion. */
  unusedAccountDays: number;
}

/**
 * Deletes old accounts without verification, login or identity, so that the owners of their addresses can register.
 * Safe to run concurrently in several replicas.
 * @throws {DomainError} `service_unavailable`. The session-end worker finishes the last batch.
 */
export async function deleteUnusedAccounts(deps: DeleteUnusedAccountsDeps): Promise<void> {
  if (deps.unusedAccountDays === 0) return;
  const madeBefore = new Date(deps.now().getTime() - deps.unusedAccountDays * DAY_MS);
  const eraseBatch = (tx: TransactionSql) => erase(tx, deps, madeBefore);
  let ends: SessionEnd[];
  do {
    ends = await transaction(deps.sql, eraseBatch);
    // Sessions end per batch so that a large number of accounts does not delay the session ends of other users.
    for (const end of ends) await endSessions(deps, end, newCallContext());
  } while (ends.length === MAX_BATCH);
}

/** Returns session ends because a login may have begun after the account was selected. */
async function erase(
  tx: TransactionSql,
  deps: DeleteUnusedAccountsDeps,
  madeBefore: Date,
): Promise<SessionEnd[]> {
  const ends: SessionEnd[] = [];
  for (const account of await lockUnusedAccounts(tx, madeBefore, MAX_BATCH)) {
    await tellErasure(tx, deps, account, { reason: "never proven, never used" }, newCallContext());
    ends.push(await owesSessionEnd(tx, deps, { userId: account.id, reason: "account_deleted" }));
    await eraseUser(tx, account.id);
  }
  return ends;
}
