import { validate as isUuid } from "uuid";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { withReason } from "../audit/act-reason.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccount } from "../users/account-store.ts";
import { type AdminDeps, assertMayActOn } from "./authorize.ts";

/**
 * All and pending logins, or one alone. Returns the ids of ended sessions.
 * @throws {DomainError} `forbidden`, `not_found`.
 */
export async function endUserSessions(
  deps: AdminDeps,
  userId: string,
  context: CallContext,
  { sessionId = "", reason = "" } = {},
): Promise<readonly string[]> {
  if (!isUuid(userId)) throw new DomainError("not_found");
  if (sessionId !== "") return endOne(deps, { userId, sessionId, reason }, context);
  const end = await transaction(deps.sql, async (tx) => {
    const account = await lockForAct(tx, deps, userId, context);
    await recordAudit(tx, deps, { type: "sessions_ended", userId: account.id, reason }, context);
    return owesSessionEnd(tx, deps, { userId: account.id, reason: "ended_by_admin" });
  });
  return endSessions(deps, end, context);
}

/** Of a session that is not live nothing is recorded. */
async function endOne(
  deps: AdminDeps,
  { userId, sessionId, reason }: { userId: string; sessionId: string; reason: string },
  context: CallContext,
): Promise<readonly string[]> {
  if (!isUuid(sessionId)) throw new DomainError("not_found");
  const isLive = await deps.tokenService.isSessionLive({ userId, sessionId }, context);
  await transaction(deps.sql, async (tx) => {
    const account = await lockForAct(tx, deps, userId, context);
    if (!isLive) throw new DomainError("not_found");
    const event = {
      type: "session_ended",
      userId: account.id,
      reason: withReason(sessionId, reason),
    } as const;
    await recordAudit(tx, deps, event, context);
  });
  await deps.tokenService.revokeSession({ sessionId, userId, reason: "ended_by_admin" }, context);
  return [sessionId];
}

async function lockForAct(
  tx: TransactionSql,
  deps: AdminDeps,
  userId: string,
  context: CallContext,
): Promise<Locked<Account>> {
  const account = await lockAccount(tx, userId);
  if (account === undefined) throw new DomainError("not_found");
  assertMayActOn(deps, context, account);
  return account;
}
