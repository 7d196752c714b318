import { validate as isUuid } from "uuid";
import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { NO_ORIGIN } from "../audit/client-origin.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { enqueueMfaNotice } from "../mfa/mfa-notice.ts";
import { deleteIdleRecoveryCodes, deleteTotp } from "../mfa/mfa-store.ts";
import { recordPasskeyRemoved } from "../passkeys/passkey-notice.ts";
import { deletePasskey, deletePasskeysSince, listPasskeys } from "../passkeys/passkey-store.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { type AdminDeps, assertMayActOn } from "./authorize.ts";

/** Removes every second factor. Returns the ids of ended sessions. @throws {DomainError} `forbidden`, `not_found`. */
export async function resetUserMfa(
  deps: AdminDeps,
  userId: string,
  context: CallContext,
  reason = "",
): Promise<readonly string[]> {
  if (!isUuid(userId)) throw new DomainError("not_found");
  const end = await transaction(deps.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, userId);
    if (user === undefined) throw new DomainError("not_found");
    assertMayActOn(deps, context, user);
    const hadTotp = await deleteTotp(tx, userId);
    // Passkeys too: each is a second factor, which a login would ask for.
    const passkeys = await deletePasskeysSince(tx, userId, new Date(0));
    if (!hadTotp && passkeys === 0) return undefined;
    await deleteIdleRecoveryCodes(tx, userId);
    await enqueueMfaNotice(tx, deps, user, { template: "mfa-disabled", from: NO_ORIGIN });
    await recordAudit(tx, deps, { type: "mfa_reset", userId: user.id, reason }, context);
    return owesSessionEnd(tx, deps, { userId, reason: "mfa_reset" });
  });
  if (end === undefined) return [];
  deps.wakeMailWorker();
  return endSessions(deps, end, context);
}

/**
 * Removes a lost passkey, also the last way to log in: a reset leads to another. Returns the ids of ended sessions.
 * @throws {DomainError} `forbidden`, `not_found`.
 */
export async function removeUserPasskey(
  deps: AdminDeps,
  { userId, passkeyId: id, reason }: { userId: string; passkeyId: string; reason: string },
  context: CallContext,
): Promise<readonly string[]> {
  if (!isUuid(userId)) throw new DomainError("not_found");
  const end = await transaction(deps.sql, async (tx) => {
    const user = await lockAccountForMfa(tx, userId);
    if (user === undefined) throw new DomainError("not_found");
    assertMayActOn(deps, context, user);
    const passkey = (await listPasskeys(tx, user.id)).find((candidate) => candidate.id === id.toLowerCase());
    if (passkey === undefined) throw new DomainError("not_found");
    await deletePasskey(tx, { userId: user.id, id: passkey.id });
    await deleteIdleRecoveryCodes(tx, user.id);
    await recordPasskeyRemoved(tx, deps, { user, passkey, from: NO_ORIGIN, act: { reason } }, context);
    return owesSessionEnd(tx, deps, { userId: user.id, reason: "passkey_removed" });
  });
  deps.wakeMailWorker();
  return endSessions(deps, end, context);
}
