import type { PublicKeyCredentialCreationOptionsJSON } from "@simplewebauthn/server";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { passkeyName } from "../passkeys/own-passkeys.ts";
import { type AddedPasskey, addPasskey, creationOptions } from "../passkeys/register-passkey.ts";
import type { Attestation } from "../passkeys/verify-attestation.ts";
import { endSessions } from "../sessions/end-sessions.ts";
import { findAccountById } from "../users/account-store.ts";
import { completeLogin } from "./complete-login.ts";
import type { LoginDeps } from "./login-deps.ts";
import type { LoginResult } from "./login-result.ts";
import { openEnrollment } from "./open-enrollment.ts";
import type { LoginOrigin } from "./remember-device.ts";

export interface PasskeyEnrollment extends LoginOrigin {
  tempToken: string;
  name: string;
  attestation: Attestation;
}

export type EnrolledPasskeyLogin = LoginResult & { added: Pick<AddedPasskey, "passkey" | "recoveryCodes"> };

/** As with TOTP, the account's credentials need not be proven. @throws {DomainError} `mfa_token_invalid`. */
export async function beginPasskeyRegistrationAtLogin(
  deps: LoginDeps,
  tempToken: string,
): Promise<{ options: PublicKeyCredentialCreationOptionsJSON; userId: string }> {
  return transaction(deps.sql, async (tx) => {
    const { user, tokenHash } = await openEnrollment(tx, deps, tempToken);
    return { options: await creationOptions(tx, deps, user, tokenHash), userId: user.id };
  });
}

/** @throws {DomainError} `mfa_token_invalid`, `passkey_invalid`, `validation_failed`. */
export function completePasskeyRegistrationAtLogin(
  deps: LoginDeps,
  attempt: PasskeyEnrollment,
  context: CallContext,
): Promise<EnrolledPasskeyLogin> {
  return deps.countLogin("mfa_enrollment", attemptEnrollment(deps, attempt, context));
}

async function attemptEnrollment(
  deps: LoginDeps,
  attempt: PasskeyEnrollment,
  context: CallContext,
): Promise<EnrolledPasskeyLogin> {
  const name = passkeyName(attempt.name);
  const enrolled = await transaction(deps.sql, (tx) => enroll(tx, deps, { ...attempt, name }, context));
  // After the commit, so that the attempt counts and the challenge stays used.
  if (enrolled === undefined) throw new DomainError("passkey_invalid");
  const { user, amr, recoveryCodes, passkey, end } = enrolled;
  deps.wakeMailWorker();
  // Before the new session exists.
  await endSessions(deps, end, context);
  const proven = { user, amr, authTime: deps.now(), ifEnded: "mfa_token_invalid" } as const;
  const login = await completeLogin(deps, proven, attempt, context);
  return { ...login, added: { recoveryCodes, passkey } };
}

/** Undefined for a refused answer. */
async function enroll(
  tx: TransactionSql,
  deps: LoginDeps,
  { name, attestation, clientIp, userAgent, tempToken }: PasskeyEnrollment,
  context: CallContext,
) {
  const { user: before, tokenHash: boundTo, amr, consume } = await openEnrollment(tx, deps, tempToken);
  const credential = { user: before, boundTo, name, attestation, clientIp, userAgent };
  const added = await addPasskey(tx, deps, credential, context);
  if (added === undefined) return undefined;
  await consume();
  const user = await findAccountById(tx, before.id);
  if (user === undefined) throw new DomainError("mfa_token_invalid");
  // Not level 3: without attestation, a registration signs nothing.
  return { ...added, user, amr: [...amr, "user", "mfa"] };
}
