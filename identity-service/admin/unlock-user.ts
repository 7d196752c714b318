import { validate as isUuid } from "uuid";
import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { clearGuesses } from "../throttle/throttle.ts";
import { lockAccount } from "../users/account-store.ts";
import { type AdminDeps, assertMayActOn } from "./authorize.ts";

/** The status stays. @throws {DomainError} `forbidden`, `not_found`. */
export async function unlockUser(
  deps: AdminDeps,
  userId: string,
  context: CallContext,
  reason = "",
): Promise<void> {
  if (!isUuid(userId)) throw new DomainError("not_found");
  const account = await transaction(deps.sql, async (tx) => {
    const locked = await lockAccount(tx, userId);
    if (locked === undefined) throw new DomainError("not_found");
    assertMayActOn(deps, context, locked);
    await recordAudit(tx, deps, { type: "unlocked", userId: locked.id, reason }, context);
    return locked;
  });
  await clearGuesses(deps.throttle, account);
}
