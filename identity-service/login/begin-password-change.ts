import type { CompleteLoginDeps } from "./login-deps.ts";
import { newMfaToken } from "./mfa-token.ts";
import { insertPasswordChange } from "./password-change-store.ts";

export interface PasswordChangeChallenge {
  kind: "passwordChange";
  /** Never logged. */
  tempToken: string;
  userId: string;
}

/** The challenge ends after `MFA_CHALLENGE_TTL_S`, five attempts or a session end. */
export async function beginPasswordChange(
  deps: CompleteLoginDeps,
  login: { userId: string; sessionEpoch: number; amr: readonly string[] },
): Promise<PasswordChangeChallenge> {
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + deps.mfaChallengeTtlS * 1_000);
  await insertPasswordChange(deps.sql, { ...login, tokenHash, createdAt, expiresAt });
  return { kind: "passwordChange", tempToken, userId: login.userId };
}
