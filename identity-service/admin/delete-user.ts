import { validate as isUuid } from "uuid";
import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { MachineClient } from "../clients/client-store.ts";
import { endLeftClients, leaveClients } from "../clients/clients-of-user.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import { forgetGuesses } from "../throttle/throttle.ts";
import { eraseUser, lockAccount } from "../users/account-store.ts";
import { assertOtherAdmin, lockAdminsFor } from "../users/last-admin.ts";
import { recordErasure } from "../users/record-erasure.ts";
import { type AdminDeps, assertHolds, assertMayActOn } from "./authorize.ts";

/** @throws {DomainError} `forbidden`, `not_found`, `last_admin`, `conflict`. */
export async function deleteUser(
  deps: AdminDeps,
  userId: string,
  context: CallContext,
  { reason = "", disableClients = false }: { reason?: string; disableClients?: boolean } = {},
): Promise<{ sessionIds: readonly string[]; clients: readonly MachineClient[] }> {
  if (!isUuid(userId)) throw new DomainError("not_found");
  if (disableClients) assertHolds(deps, context, "clients:write");
  const { end, erased, left } = await transaction(deps.sql, async (tx) => {
    const admins = await lockAdminsFor(tx, deps, userId);
    const account = await lockAccount(tx, userId);
    if (account === undefined) throw new DomainError("not_found");
    assertMayActOn(deps, context, account);
    // The stored spelling of the UUID.
    if (account.role === "ADMIN") assertOtherAdmin(admins, account.id);
    const leaver = { userId: account.id, disable: disableClients, isLeaving: true };
    const clientsLeft = await leaveClients(tx, deps, leaver, context);
    await recordErasure(tx, deps, { account, reason }, context);
    const owed = await owesSessionEnd(tx, deps, { userId: account.id, reason: "account_deleted" });
    await eraseUser(tx, account.id);
    return { end: owed, erased: account, left: clientsLeft };
  });
  await forgetGuesses(deps.throttle, erased);
  const sessionIds = await endSessions(deps, end, context);
  await endLeftClients(deps, left, context);
  return { sessionIds, clients: left.clients };
}
