import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import { tellAudit } from "../audit/tell-audit.ts";
import { isStill, type ReauthenticateDeps, reauthenticate } from "../passwords/reauthenticate.ts";
import { type EndSessionsDeps, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { type LockedAccount, lockAccount } from "../users/account-store.ts";
import { checkMfaCode, refuseWrongCode } from "./check-mfa-code.ts";
import { endSessionsOfMfaChange } from "./end-sessions-of-mfa-change.ts";
import type { MfaDeps, TypedCode } from "./mfa-deps.ts";
import { enqueueMfaNotice } from "./mfa-notice.ts";
import { deleteSecondFactor, lockUserForMfa } from "./mfa-store.ts";

export interface DisableRequest extends TypedCode {
  userId: string;
  sessionId: string;
  password: string;
}

/** Returns the ids of the ended sessions. @throws {DomainError} `invalid_credentials`, `mfa_code_invalid`. */
export async function disableTotp(
  deps: MfaDeps & ReauthenticateDeps & EndSessionsDeps,
  request: DisableRequest,
  context: CallContext,
): Promise<readonly string[]> {
  const checked = await reauthenticate(deps, request, context.deadlineMs);
  const end = await transaction(deps.sql, (tx) => disable(tx, deps, { request, checked, context }));
  // Thrown after the commit, so that the attempt counts.
  if (end === undefined) refuseWrongCode(deps);
  deps.wakeMailWorker();
  return endSessionsOfMfaChange(deps, end, context);
}

/** Undefined for a wrong code. */
async function disable(
  tx: TransactionSql,
  deps: MfaDeps,
  step: { request: DisableRequest; checked: LockedAccount; context: CallContext },
): Promise<SessionEnd | undefined> {
  const { request, checked, context } = step;
  const { userId, sessionId: exceptSessionId, clientIp, userAgent } = request;
  if (!isStill(checked, await lockAccount(tx, userId))) throw new DomainError("invalid_credentials");
  const user = await lockUserForMfa(tx, userId);
  if (user === undefined) throw new DomainError("invalid_credentials");
  const method = await checkMfaCode(tx, deps, user, request, "session", context);
  if (method === undefined) return undefined;
  await deleteSecondFactor(tx, userId);
  await enqueueMfaNotice(tx, deps, user, "mfa-disabled", request);
  await tellAudit(tx, deps, { type: "mfa_disabled", userId, byOwner: true, clientIp, userAgent }, context);
  return owesSessionEnd(tx, deps, { userId, exceptSessionId, reason: "mfa_disabled" });
}
