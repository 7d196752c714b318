import { newCallContext } from "../../service-kit/call-context.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { transaction } from "../../service-kit/postgres.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { eraseUser, lockUnusedAccounts } from "../users/account-store.ts";
import { tellErasure } from "../users/tell-erasure.ts";
import type { AccountsDeps } from "./accounts-deps.ts";

const DAY_MS = 24 * 3_600_000;
const MAX_BATCH = 100;

/** Frees the addresses for their owners. */
export async function deleteUnusedAccounts(deps: AccountsDeps): Promise<void> {
  if (deps.unusedAccountDays === 0) return;
  const madeBefore = new Date(deps.now().getTime() - deps.unusedAccountDays * DAY_MS);
  const eraseBatch = (tx: TransactionSql) => erase(tx, deps, madeBefore);
  let ends: SessionEnd[];
  do {
    ends = await transaction(deps.sql, eraseBatch);
    // Per batch, so that other session ends do not wait.
    for (const end of ends) await endSessions(deps, end, newCallContext());
  } while (ends.length === MAX_BATCH);
}

/** A login may have begun meanwhile. */
async function erase(tx: TransactionSql, deps: AccountsDeps, madeBefore: Date): Promise<SessionEnd[]> {
  const ends: SessionEnd[] = [];
  for (const account of await lockUnusedAccounts(tx, madeBefore, deps.access.defaultRole, MAX_BATCH)) {
    await tellErasure(tx, deps, account, { reason: "never proven, never used" }, newCallContext());
    ends.push(await owesSessionEnd(tx, deps, { userId: account.id, reason: "account_deleted" }));
    await eraseUser(tx, account.id);
  }
  return ends;
}
