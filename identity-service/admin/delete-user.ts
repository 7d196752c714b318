import { validate as isUuid } from "uuid";
import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { transaction } from "../../service-kit/postgres.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import { forgetGuesses } from "../throttle/throttle.ts";
import { eraseUser, lockAccount } from "../users/account-store.ts";
import { tellErasure } from "../users/tell-erasure.ts";
import type { AdminDeps } from "./admin-deps.ts";
import { assertMayActOn } from "./authorize.ts";
import { assertOtherAdmin, lockAdminsFor } from "./other-admin.ts";

/** Returns the ids of ended sessions. @throws {DomainError} `forbidden`, `not_found`, `last_admin`. */
export async function deleteUser(
  deps: AdminDeps,
  userId: string,
  context: CallContext,
  reason = "",
): Promise<readonly string[]> {
  if (!isUuid(userId)) throw new DomainError("not_found");
  const { end, erased } = await transaction(deps.sql, async (tx) => {
    const admins = await lockAdminsFor(tx, userId);
    const account = await lockAccount(tx, userId);
    if (account === undefined) throw new DomainError("not_found");
    assertMayActOn(deps, context, account);
    // The stored spelling of the UUID.
    if (account.role === "ADMIN") assertOtherAdmin(admins, account.id);
    await tellErasure(tx, deps, account, { reason }, context);
    const owed = await owesSessionEnd(tx, deps, { userId: account.id, reason: "account_deleted" });
    await eraseUser(tx, account.id);
    return { end: owed, erased: account };
  });
  await forgetGuesses(deps.throttle, erased);
  return endSessions(deps, end, context);
}
