import type { PublicKeyCredentialRequestOptionsJSON } from "@simplewebauthn/server";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { beginPasskeyCeremony, finishPasskeyCeremony } from "../passkeys/passkey-ceremony.ts";
import { findPasskey } from "../passkeys/passkey-store.ts";
import type { Assertion } from "../passkeys/verify-assertion.ts";
import { spendOrRefuse } from "../throttle/spend-call.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { needsVerifiedEmail } from "../users/can-log-in.ts";
import { completeLogin, type ProvenUser } from "./complete-login.ts";
import type { LoginDeps } from "./login-deps.ts";
import type { LoginResult } from "./login-result.ts";
import { mfaTokenHash, newMfaToken } from "./mfa-token.ts";
import { recogniseCaller, spendLogin } from "./recognise-caller.ts";
import type { LoginOrigin } from "./remember-device.ts";

export interface PasskeyLoginBeginning {
  /** 256 bits in base64url. Never logged. */
  challengeToken: string;
  options: PublicKeyCredentialRequestOptionsJSON;
}

export interface PasskeyLoginAttempt extends LoginOrigin {
  challengeToken: string;
  assertion: Assertion;
}

const REFUSAL = "passkey_invalid";

/** Names no account, because the authenticator does. @throws {DomainError} `too_many_requests`. */
export async function beginPasskeyLogin(
  deps: LoginDeps,
  { clientIp, deviceToken }: Pick<LoginOrigin, "clientIp" | "deviceToken">,
): Promise<PasskeyLoginBeginning> {
  await spendOrRefuse(deps, { kind: "passkey_login", clientIp, deviceToken });
  const { tempToken: challengeToken, tokenHash: boundTo } = newMfaToken(deps.randomBytes);
  const options = await beginPasskeyCeremony(deps.sql, deps, { purpose: "login", boundTo, user: null });
  if (options === undefined) throw new Error("a login with a passkey has no options");
  return { challengeToken, options };
}

/**
 * A locked account is let in: the lock is against guesses, and a signature cannot be guessed.
 * @throws {DomainError} `passkey_invalid`, whatever the reason is; `too_many_requests`.
 */
export function logInWithPasskey(
  deps: LoginDeps,
  attempt: PasskeyLoginAttempt,
  context: CallContext,
): Promise<LoginResult> {
  return deps.countLogin("passkey", attemptLogin(deps, attempt, context));
}

async function attemptLogin(
  deps: LoginDeps,
  attempt: PasskeyLoginAttempt,
  context: CallContext,
): Promise<LoginResult> {
  const boundTo = mfaTokenHash(attempt.challengeToken);
  if (boundTo === undefined) throw new DomainError(REFUSAL);
  const proven = await transaction(deps.sql, (tx) => prove(tx, deps, { ...attempt, boundTo }, context));
  // After the commit, so that the challenge stays used.
  if (proven === undefined) {
    // A notice may be due.
    deps.wakeMailWorker();
    throw new DomainError(REFUSAL);
  }
  const caller = await recogniseCaller(deps, attempt, proven.user.email);
  await spendLogin(deps, "passkey", caller);
  const origin = { ...attempt, device: caller.device };
  return completeLogin(deps, { ...proven, ifEnded: REFUSAL }, origin, context);
}

/** Undefined for a refused answer. */
async function prove(
  tx: TransactionSql,
  deps: LoginDeps,
  attempt: PasskeyLoginAttempt & { boundTo: Buffer },
  context: CallContext,
): Promise<ProvenUser | undefined> {
  const named = await findPasskey(tx, Buffer.from(attempt.assertion.credentialId, "base64url"));
  const user = named && (await lockAccountForMfa(tx, named.userId));
  const used = await finishPasskeyCeremony(tx, deps, { ...attempt, user, purpose: "login" }, context);
  if (used === undefined || user === undefined) return undefined;
  if (needsVerifiedEmail(deps, user)) return undefined;
  return { user, amr: used.amr, authTime: deps.now() };
}
