import type { BeginMfaChallengeDeps } from "./begin-mfa-challenge.ts";
import { newMfaToken } from "./mfa-token.ts";
import { deleteEndedPasswordChanges, insertPasswordChange } from "./password-change-store.ts";

/** A login whose credentials were right and whose new password is missing. */
export interface PasswordChangeChallenge {
  kind: "passwordChange";
  /** For `changePasswordAtLogin` and nothing else. Never logged. */
  tempToken: string;
  userId: string;
}

const KEPT_MS = 24 * 3_600_000;
const MAX_DELETED = 100;

/**
 * Begins the last part of a login to an account whose password must be changed. It is over after
 * `MFA_CHALLENGE_TTL_S`, five tries, or what ends the user's sessions.
 *
 * @param login `sessionEpoch` is the user's when the credentials were right; `amr` how that was shown (RFC 8176).
 */
export async function beginPasswordChange(
  deps: BeginMfaChallengeDeps,
  login: { userId: string; sessionEpoch: number; amr: readonly string[] },
): Promise<PasswordChangeChallenge> {
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + deps.mfaChallengeTtlS * 1_000);
  await insertPasswordChange(deps.sql, { ...login, tokenHash, createdAt, expiresAt });
  await deleteEndedPasswordChanges(deps.sql, new Date(createdAt.getTime() - KEPT_MS), MAX_DELETED);
  return { kind: "passwordChange", tempToken, userId: login.userId };
}
