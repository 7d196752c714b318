import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import { tellAudit } from "../audit/tell-audit.ts";
import { owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { endWrongRows } from "../throttle/mfa-guessing-store.ts";
import { assertTriesLeft, noteWrongCode } from "../throttle/mfa-tries.ts";
import { endSessionsOfMfaChange } from "./end-sessions-of-mfa-change.ts";
import { giveRecoveryCodes } from "./give-recovery-codes.ts";
import type { MfaChangeDeps, TypedCode } from "./mfa-deps.ts";
import { enqueueMfaEnabled } from "./mfa-notice.ts";
import { confirmTotpCredential, consumeTotpStep, findTotpCredential, lockUserForMfa } from "./mfa-store.ts";
import { totpStep } from "./totp.ts";
import { openTotpSecret } from "./totp-secret.ts";
import { parseCode } from "./typed-code.ts";

const ENROLLMENT_TTL_MS = 15 * 60_000;

export interface EnrollmentConfirmation extends TypedCode {
  userId: string;
  sessionId: string;
}

export interface ConfirmedEnrollment {
  /** Never logged. */
  recoveryCodes: string[];
  endedSessionIds: readonly string[];
}

/** Ends the other sessions. @throws {DomainError} `mfa_code_invalid`, `email_not_verified`, `mfa_already_enabled`. */
export async function confirmTotpEnrollment(
  deps: MfaChangeDeps,
  request: EnrollmentConfirmation,
  context: CallContext,
): Promise<ConfirmedEnrollment> {
  const enabled = await transaction(deps.sql, (tx) => enable(tx, deps, request, context));
  // Thrown after the commit, so that the attempt counts.
  if (enabled === undefined) throw new DomainError("mfa_code_invalid");
  deps.wakeMailWorker();
  const endedSessionIds = await endSessionsOfMfaChange(deps, enabled.end, context);
  return { recoveryCodes: enabled.recoveryCodes, endedSessionIds };
}

/** Undefined for a wrong code. */
async function enable(
  tx: TransactionSql,
  deps: MfaChangeDeps,
  request: EnrollmentConfirmation,
  context: CallContext,
): Promise<{ recoveryCodes: string[]; end: SessionEnd } | undefined> {
  const { userId, sessionId: exceptSessionId } = request;
  const now = deps.now();
  const user = await lockUserForMfa(tx, userId);
  if (user === undefined || !user.isActive) throw new DomainError("mfa_code_invalid");
  const credential = await findTotpCredential(tx, userId);
  if (credential !== undefined && credential.confirmedAt !== null) {
    throw new DomainError("mfa_already_enabled");
  }
  // The proof may have been revoked since the enrollment began.
  if (!user.areCredentialsProven) throw new DomainError("email_not_verified");
  const origin = { userId, isKnownDevice: true };
  await assertTriesLeft(tx, deps, origin);
  const isFresh =
    credential !== undefined && now.getTime() - credential.createdAt.getTime() < ENROLLMENT_TTL_MS;
  const code = parseCode(request.code);
  const step =
    isFresh && code.kind === "totp"
      ? totpStep(openTotpSecret(deps.mfaKeys, userId, credential), code.digits, now)
      : undefined;
  // Consumes the time step, so that the code cannot also log in.
  if (step === undefined || !(await consumeTotpStep(tx, userId, step))) {
    await noteWrongCode(tx, deps, origin);
    return undefined;
  }
  await confirmTotpCredential(tx, userId, now);
  await endWrongRows(tx, userId);
  const recoveryCodes = await giveRecoveryCodes(tx, deps, userId);
  await enqueueMfaEnabled(tx, deps, user, request);
  const { clientIp, userAgent } = request;
  await tellAudit(tx, deps, { type: "mfa_enabled", userId, byOwner: true, clientIp, userAgent }, context);
  const end = await owesSessionEnd(tx, deps, { userId, exceptSessionId, reason: "mfa_enabled" });
  return { recoveryCodes, end };
}
