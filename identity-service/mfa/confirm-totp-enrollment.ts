import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { assertOwner, type OwnerSession } from "../passwords/prove-owner.ts";
import { endSessionsSoon, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { endWrongRows } from "../throttle/mfa-guessing-store.ts";
import { assertTriesLeft, noteWrongCode } from "../throttle/mfa-tries.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import type { MfaDeps, TypedCode } from "./check-mfa-code.ts";
import { settleFirstFactor } from "./give-recovery-codes.ts";
import { enqueueMfaNotice } from "./mfa-notice.ts";
import { confirmTotpCredential, consumeTotpStep, findTotpCredential } from "./mfa-store.ts";
import { parseCode } from "./recovery-code.ts";
import { totpStep } from "./totp.ts";
import { openTotpSecret } from "./totp-secret.ts";

const ENROLLMENT_TTL_MS = 15 * 60_000;

export interface EnrollmentConfirmation extends TypedCode, OwnerSession {
  userId: string;
  sessionId: string;
}

export interface ConfirmedEnrollment {
  /** Empty unless it is the first second factor. Never logged. */
  recoveryCodes: string[];
  endedSessionIds: readonly string[];
}

/**
 * Ends the other sessions.
 * @throws {DomainError} `step_up_required`, `mfa_code_invalid`, `email_not_verified`, `mfa_already_enabled`.
 */
export async function confirmTotpEnrollment(
  deps: MfaDeps,
  request: EnrollmentConfirmation,
  context: CallContext,
): Promise<ConfirmedEnrollment> {
  const enabled = await transaction(deps.sql, (tx) => enable(tx, deps, request, context));
  // After the commit, so that the attempt counts.
  if (enabled === undefined) throw new DomainError("mfa_code_invalid");
  deps.wakeMailWorker();
  const endedSessionIds = await endSessionsSoon(deps, enabled.end, context);
  return { recoveryCodes: enabled.recoveryCodes, endedSessionIds };
}

/** Undefined for a wrong code. */
async function enable(
  tx: TransactionSql,
  deps: MfaDeps,
  request: EnrollmentConfirmation,
  context: CallContext,
): Promise<EnabledTotp | undefined> {
  const user = await lockAccountForMfa(tx, request.userId);
  if (user?.status !== "active") throw new DomainError("mfa_code_invalid");
  assertOwner(deps, "confirmTotp", request, user);
  // May have been revoked since.
  if (user.credentialsProvenAt === null) throw new DomainError("email_not_verified");
  return enableTotp(tx, deps, { ...request, user, exceptSessionId: request.sessionId }, context);
}

export interface EnabledTotp {
  /** Never logged. */
  recoveryCodes: string[];
  /** For `endSessions`. */
  end: SessionEnd;
}

/**
 * Undefined for a wrong code, which counts: commit it.
 * @throws {DomainError} `mfa_already_enabled`, `too_many_requests`, `validation_failed`.
 */
export async function enableTotp(
  tx: TransactionSql,
  deps: MfaDeps,
  request: TypedCode & { user: Locked<Account>; exceptSessionId?: string },
  context: CallContext,
): Promise<EnabledTotp | undefined> {
  const { user, exceptSessionId } = request;
  const { id: userId } = user;
  const now = deps.now();
  const credential = await findTotpCredential(tx, userId);
  if (credential !== undefined && credential.confirmedAt !== null) {
    throw new DomainError("mfa_already_enabled");
  }
  const origin = { userId, isKnownDevice: true };
  await assertTriesLeft(tx, deps, origin);
  const isFresh =
    credential !== undefined && now.getTime() - credential.createdAt.getTime() < ENROLLMENT_TTL_MS;
  const code = parseCode(request.code);
  const step =
    isFresh && code.kind === "totp"
      ? totpStep(openTotpSecret(deps.mfaKeys, userId, credential), code.digits, now)
      : undefined;
  // The code must not also log in.
  if (step === undefined || !(await consumeTotpStep(tx, userId, step))) {
    await noteWrongCode(tx, deps, origin);
    return undefined;
  }
  await confirmTotpCredential(tx, userId, now);
  await endWrongRows(tx, userId);
  // First, so that the codes are not older than the link that takes them back.
  await enqueueMfaNotice(tx, deps, user, { template: "mfa-enabled", from: request });
  const recoveryCodes = await settleFirstFactor(tx, deps, user);
  const { clientIp, userAgent } = request;
  await recordAudit(tx, deps, { type: "mfa_enabled", userId, byOwner: true, clientIp, userAgent }, context);
  const end = await owesSessionEnd(tx, deps, {
    userId,
    reason: "mfa_enabled",
    ...(exceptSessionId !== undefined && { exceptSessionId }),
  });
  return { recoveryCodes, end };
}
