import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { leaveClients } from "../clients/clients-of-user.ts";
import { releaseAddress } from "../mail/mail-budget-store.ts";
import { type OwnerSession, proveOwner } from "../passwords/prove-owner.ts";
import { isStill, type Reauthentication } from "../passwords/reauthenticate.ts";
import { type EndedSessions, endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { forgetGuesses } from "../throttle/throttle.ts";
import {
  BEFORE_ALL_ACCOUNTS,
  eraseUser,
  listUnusedAccounts,
  lockAccount,
  lockUnusedAccounts,
  type UnusedPage,
} from "../users/account-store.ts";
import type { LoginRules } from "../users/can-log-in.ts";
import { assertOtherAdmin, lockAdmins } from "../users/last-admin.ts";
import { recordErasure } from "../users/record-erasure.ts";
import { lockAddresses } from "../users/user-store.ts";
import type { AccountsDeps } from "./register.ts";

/** An unverified address cannot register meanwhile. */
const RELEASED_FOR_MS = 3_600_000;

/** The audit log keeps id and client data. @throws {DomainError} `step_up_required`, `invalid_credentials`, `last_admin`. */
export async function deleteAccount(
  deps: AccountsDeps & LoginRules,
  request: Reauthentication & OwnerSession,
  context: CallContext,
): Promise<EndedSessions> {
  const { userId } = request;
  const checked = await proveOwner(deps, "deleteAccount", request, context.deadlineMs);
  const end = await transaction(deps.sql, async (tx) => {
    if (checked.role === "ADMIN") assertOtherAdmin(await lockAdmins(tx, deps), userId);
    const account = await lockAccount(tx, userId);
    // The role may have changed since.
    if (!isStill(checked, account) || (account.role === "ADMIN") !== (checked.role === "ADMIN")) {
      throw new DomainError("invalid_credentials");
    }
    await leaveClients(tx, deps, { userId, disable: false, isLeaving: true }, context);
    await recordErasure(tx, deps, { account, byOwner: true }, context);
    if (!account.emailVerified) await keepFromRegistration(tx, account.email, deps.now());
    const owed = await owesSessionEnd(tx, deps, { userId, reason: "account_deleted" });
    await eraseUser(tx, userId);
    return owed;
  });
  await forgetGuesses(deps.throttle, checked);
  return { userId, sessionIds: await endSessions(deps, end, context) };
}

async function keepFromRegistration(tx: TransactionSql, email: string, now: Date): Promise<void> {
  await lockAddresses(tx, [email]);
  await releaseAddress(tx, email, new Date(now.getTime() + RELEASED_FOR_MS));
}

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
      { madeBefore, role, after, now: deps.now() },
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
  const still = { role: deps.access.defaultRole, now: deps.now() };
  for (const account of await lockUnusedAccounts(tx, ids, still)) {
    await recordErasure(tx, deps, { account, reason: "never proven, never used" }, newCallContext());
    ends.push(await owesSessionEnd(tx, deps, { userId: account.id, reason: "account_deleted" }));
    await eraseUser(tx, account.id);
  }
  return ends;
}
