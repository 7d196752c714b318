import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { newTotpSecret, type TotpEnrollment } from "../mfa/begin-totp-enrollment.ts";
import { enableTotp } from "../mfa/confirm-totp-enrollment.ts";
import { endSessions } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import type { Account } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import { completeLogin } from "./complete-login.ts";
import type { MfaAttempt } from "./complete-mfa-login.ts";
import type { LoginDeps } from "./login-deps.ts";
import type { LoginResult } from "./login-result.ts";
import { openEnrollment } from "./open-enrollment.ts";

/**
 * The first factor was just proven, so no password is asked for. Nor must the account's credentials be proven: a proof of
 * such an account's address removes the factor.
 * @throws {DomainError} `mfa_token_invalid`, `mfa_already_enabled`.
 */
export async function beginTotpEnrollmentAtLogin(
  deps: LoginDeps,
  tempToken: string,
): Promise<TotpEnrollment & { userId: string }> {
  return transaction(deps.sql, async (tx) => {
    const { user } = await openEnrollment(tx, deps, tempToken);
    return { ...(await newTotpSecret(tx, deps, user)), userId: user.id };
  });
}

export type EnrolledLogin = LoginResult & {
  /** Never logged. */
  recoveryCodes: string[];
};

/** @throws {DomainError} `mfa_token_invalid`, `mfa_code_invalid`, `validation_failed`. */
export function completeTotpEnrollmentAtLogin(
  deps: LoginDeps,
  attempt: MfaAttempt,
  context: CallContext,
): Promise<EnrolledLogin> {
  return deps.countLogin("mfa_enrollment", attemptEnrollment(deps, attempt, context));
}

async function attemptEnrollment(
  deps: LoginDeps,
  attempt: MfaAttempt,
  context: CallContext,
): Promise<EnrolledLogin> {
  const enrolled = await transaction(deps.sql, (tx) => enroll(tx, deps, attempt, context));
  // After the commit, so that the attempt counts.
  if (enrolled === undefined) throw new DomainError("mfa_code_invalid");
  const { user, amr, recoveryCodes, end } = enrolled;
  deps.wakeMailWorker();
  // Before the new session exists.
  await endSessions(deps, end, context);
  const proven = { user, amr, authTime: deps.now(), ifEnded: "mfa_token_invalid" } as const;
  const login = await completeLogin(deps, proven, attempt, context);
  return { ...login, recoveryCodes };
}

interface Enrolled {
  user: Account;
  amr: readonly string[];
  recoveryCodes: string[];
  end: SessionEnd;
}

/** Undefined for a wrong code. */
async function enroll(
  tx: TransactionSql,
  deps: LoginDeps,
  attempt: MfaAttempt,
  context: CallContext,
): Promise<Enrolled | undefined> {
  const { user: before, amr, consume } = await openEnrollment(tx, deps, attempt.tempToken);
  const enabled = await enableTotp(tx, deps, { ...attempt, user: before }, context);
  if (enabled === undefined) return undefined;
  await consume();
  const user = await findAccountById(tx, before.id);
  if (user === undefined) throw new DomainError("mfa_token_invalid");
  return { ...enabled, user, amr: [...amr, "otp", "mfa"] };
}
