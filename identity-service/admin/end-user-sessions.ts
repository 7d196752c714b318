import { validate as isUuid } from "uuid";
import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { type EndSessionsDeps, endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import { lockAccount } from "../users/account-store.ts";
import { type AuthorizeDeps, assertMayActOn } from "./authorize.ts";

/** Ends pending logins too. Returns the ids of ended sessions. @throws {DomainError} `forbidden`, `not_found`. */
export async function endUserSessions(
  deps: EndSessionsDeps & AuthorizeDeps,
  userId: string,
  context: CallContext,
  reason = "",
): Promise<readonly string[]> {
  if (!isUuid(userId)) throw new DomainError("not_found");
  const end = await transaction(deps.sql, async (tx) => {
    const account = await lockAccount(tx, userId);
    if (account === undefined) throw new DomainError("not_found");
    assertMayActOn(deps, context, account);
    await recordAudit(tx, deps, { type: "sessions_ended", userId: account.id, reason }, context);
    return owesSessionEnd(tx, deps, { userId: account.id, reason: "ended_by_admin" });
  });
  return endSessions(deps, end, context);
}
