import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { listIdentities } from "../identities/external-identity-store.ts";
import { deleteIdleRecoveryCodes } from "../mfa/mfa-store.ts";
import { assertFactorRemovable } from "../mfa/second-factors.ts";
import { assertOwner, type Owner } from "../passwords/prove-owner.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { lockAccount } from "../users/account-store.ts";
import type { PasskeyDeps } from "./passkey-ceremony.ts";
import { recordPasskeyRemoved } from "./passkey-notice.ts";
import { deletePasskey as deleteRow, listPasskeys } from "./passkey-store.ts";

/**
 * Ends the other sessions, which may have begun with it. Returns their ids.
 * @throws {DomainError} `step_up_required`, `not_found`, `last_factor`, `mfa_required`.
 */
export async function deletePasskey(
  deps: PasskeyDeps,
  request: { owner: Owner; passkeyId: string },
  context: CallContext,
): Promise<readonly string[]> {
  const end = await transaction(deps.sql, (tx) => remove(tx, deps, request, context));
  deps.wakeMailWorker();
  return endSessions(deps, end, context);
}

async function remove(
  tx: TransactionSql,
  deps: PasskeyDeps,
  { owner, passkeyId: id }: { owner: Owner; passkeyId: string },
  context: CallContext,
): Promise<SessionEnd> {
  const { userId, sessionId: exceptSessionId } = owner;
  const user = await lockAccount(tx, userId);
  if (user?.status !== "active") throw new DomainError("not_found");
  assertOwner(deps, "deletePasskey", owner, user);
  const passkeys = await listPasskeys(tx, userId);
  const passkey = passkeys.find((candidate) => candidate.id === id);
  if (passkey === undefined) throw new DomainError("not_found");
  const hasOtherLogin =
    user.passwordHash !== null || passkeys.length > 1 || (await listIdentities(tx, userId)).length > 0;
  if (!hasOtherLogin) throw new DomainError("last_factor");
  assertFactorRemovable(deps, user, passkeys.length - 1 + (user.hasTotp ? 1 : 0));
  await deleteRow(tx, { userId, id });
  await deleteIdleRecoveryCodes(tx, userId);
  await recordPasskeyRemoved(tx, deps, { user, passkey, from: owner }, context);
  return owesSessionEnd(tx, deps, { userId, exceptSessionId, reason: "passkey_removed" });
}
