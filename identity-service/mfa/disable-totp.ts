import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { type OwnerSession, proveOwner } from "../passwords/prove-owner.ts";
import { isStill } from "../passwords/reauthenticate.ts";
import { endSessionsSoon, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import type { Account } from "../users/account.ts";
import { lockAccount } from "../users/account-store.ts";
import { checkMfaCode, type MfaDeps, refuseWrongCode, type TypedCode } from "./check-mfa-code.ts";
import { enqueueMfaNotice } from "./mfa-notice.ts";
import { deleteIdleRecoveryCodes, deleteTotp } from "./mfa-store.ts";
import { assertFactorRemovable } from "./second-factors.ts";

export interface DisableRequest extends TypedCode, OwnerSession {
  userId: string;
  sessionId: string;
  password: string;
}

/** Returns the ids of ended sessions. @throws {DomainError} `invalid_credentials`, `mfa_code_invalid`, `mfa_required`. */
export async function disableTotp(
  deps: MfaDeps,
  request: DisableRequest,
  context: CallContext,
): Promise<readonly string[]> {
  const checked = await proveOwner(deps, "disableTotp", request, context.deadlineMs);
  const end = await transaction(deps.sql, (tx) => disable(tx, deps, { request, checked, context }));
  // After the commit, so that the attempt counts.
  if (end === undefined) refuseWrongCode(deps);
  deps.wakeMailWorker();
  return endSessionsSoon(deps, end, context);
}

/** Undefined for a wrong code. */
async function disable(
  tx: TransactionSql,
  deps: MfaDeps,
  step: { request: DisableRequest; checked: Account; context: CallContext },
): Promise<SessionEnd | undefined> {
  const { request, checked, context } = step;
  const { userId, sessionId: exceptSessionId, clientIp, userAgent } = request;
  const account = await lockAccount(tx, userId);
  if (!isStill(checked, account)) throw new DomainError("invalid_credentials");
  // A recovery code of a user with passkeys only would be spent for nothing.
  if (!account.hasTotp) return undefined;
  assertFactorRemovable(deps, account, account.passkeyCount);
  const method = await checkMfaCode(tx, deps, { user: account, typed: request, source: "session" }, context);
  if (method === undefined) return undefined;
  await deleteTotp(tx, userId);
  await deleteIdleRecoveryCodes(tx, userId);
  await enqueueMfaNotice(tx, deps, account, { template: "mfa-disabled", from: request });
  await recordAudit(tx, deps, { type: "mfa_disabled", userId, byOwner: true, clientIp, userAgent }, context);
  return owesSessionEnd(tx, deps, { userId, exceptSessionId, reason: "mfa_disabled" });
}
