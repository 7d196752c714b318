import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";
import type { BeginMfaChallengeDeps } from "./begin-mfa-challenge.ts";
import { newMfaToken } from "./mfa-token.ts";
import { insertPasswordChange } from "./password-change-store.ts";

export type BeginPasswordChangeDeps = Pick<BeginMfaChallengeDeps, "now" | "randomBytes" | "mfaChallengeTtlS">;

/** A login whose credentials were right and whose new password is missing. */
export interface PendingPasswordChange {
  /** For `changePasswordAtLogin` and nothing else. Never logged. */
  tempToken: string;
  userId: string;
}

/**
 * Begins the last part of a login to an account whose password must be changed. It is over after
 * `MFA_CHALLENGE_TTL_S`, five tries, or what ends the user's sessions.
 *
 * @param sql the transaction that checked the second factor, if there is one.
 * @param login `sessionEpoch` is the user's when the credentials were right; `amr` how that was shown (RFC 8176).
 */
export async function beginPasswordChange(
  sql: Sql | TransactionSql,
  deps: BeginPasswordChangeDeps,
  login: { userId: string; sessionEpoch: number; amr: readonly string[] },
): Promise<PendingPasswordChange> {
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + deps.mfaChallengeTtlS * 1_000);
  await insertPasswordChange(sql, { ...login, tokenHash, createdAt, expiresAt });
  return { tempToken, userId: login.userId };
}
