import type { TransactionSql } from "#kit/database/postgres.ts";
import { transaction } from "#kit/database/postgres.ts";
import { newCallContext } from "#kit/rpc/call-context.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import {
  BEFORE_ALL_ACCOUNTS,
  eraseUser,
  listUnusedAccounts,
  lockUnusedAccounts,
  type UnusedPage,
} from "../users/account-store.ts";
import { recordErasure } from "../users/record-erasure.ts";
import type { AccountsDeps } from "./accounts-deps.ts";

const DAY_MS = 24 * 3_600_000;
const MAX_PAGE = 100;

/** Frees the addresses for their owners. */
export async function deleteUnusedAccounts(deps: AccountsDeps, maxPage = MAX_PAGE): Promise<void> {
  if (deps.unusedAccountDays === 0) return;
  const madeBefore = new Date(deps.now().getTime() - deps.unusedAccountDays * DAY_MS);
  const role = deps.access.defaultRole;
  let after: UnusedPage["next"] = BEFORE_ALL_ACCOUNTS;
  do {
    const { ids, next }: UnusedPage = await listUnusedAccounts(
      deps.sql,
      { madeBefore, role, after },
      maxPage,
    );
    const ends = ids.length === 0 ? [] : await transaction(deps.sql, (tx) => erase(tx, deps, ids));
    // Per page, so that other session ends do not wait.
    for (const end of ends) await endSessions(deps, end, newCallContext());
    after = next;
  } while (after !== undefined);
}

async function erase(tx: TransactionSql, deps: AccountsDeps, ids: readonly string[]): Promise<SessionEnd[]> {
  const ends: SessionEnd[] = [];
  for (const account of await lockUnusedAccounts(tx, ids, deps.access.defaultRole)) {
    await recordErasure(tx, deps, { account, reason: "never proven, never used" }, newCallContext());
    ends.push(await owesSessionEnd(tx, deps, { userId: account.id, reason: "account_deleted" }));
    await eraseUser(tx, account.id);
  }
  return ends;
}
