import { insertEnrollment } from "./enrollment-store.ts";
import type { LoginDeps } from "./login-deps.ts";
import type { MfaEnrollmentChallenge } from "./login-result.ts";
import { newMfaToken } from "./mfa-token.ts";

/** In the order in which clients should offer them. */
const ENROLLMENT_METHODS = ["totp", "passkey"] as const;

/** Time to install an authenticator app. */
const ENROLLMENT_TTL_MS = 15 * 60_000;

/** The challenge ends after 15 minutes, ten attempts or a session end. */
export async function beginEnrollment(
  deps: LoginDeps,
  login: { userId: string; sessionEpoch: number; amr: readonly string[] },
): Promise<MfaEnrollmentChallenge> {
  const { tempToken, tokenHash } = newMfaToken(deps.randomBytes);
  const createdAt = deps.now();
  const expiresAt = new Date(createdAt.getTime() + ENROLLMENT_TTL_MS);
  await insertEnrollment(deps.sql, { ...login, tokenHash, createdAt, expiresAt });
  return { kind: "mfaEnrollment", tempToken, methods: ENROLLMENT_METHODS, userId: login.userId };
}
