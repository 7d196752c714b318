import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { beginMfaChallenge, type PendingLogin } from "../login/begin-mfa-challenge.ts";
import type { CompletedLogin } from "../login/login.ts";
import { beginSession } from "../sessions/begin-session.ts";
import type { User } from "../users/user.ts";
import type { CallOrigin, OAuthDeps } from "./oauth-deps.ts";

/**
 * The end of a login whose user a provider has proven: the same as that of one by password. RFC 8176 registers no value
 * for a login at a provider; `fed` is what others write.
 *
 * @param proven `sessionEpoch` is the user's when the provider proved them.
 * @throws {DomainError} `invalid_credentials` if sessions were ended since; `service_unavailable`.
 */
export async function finishOAuthLogin(
  deps: OAuthDeps,
  proven: { user: User; sessionEpoch: number; authTime: Date },
  from: CallOrigin,
  context: CallContext,
): Promise<CompletedLogin | { pending: PendingLogin }> {
  const { user, sessionEpoch, authTime } = proven;
  const { clientIp, userAgent } = from;
  if (deps.loginRequiresVerifiedEmail && !user.emailVerified) throw new DomainError("email_not_verified");
  if (user.mfaEnabled) {
    const challenge = { userId: user.id, firstFactor: "fed", sessionEpoch, clientIp, userAgent } as const;
    return { pending: await beginMfaChallenge(deps, challenge) };
  }
  const session = { userId: user.id, role: user.role, amr: ["fed"], authTime, clientIp, userAgent };
  return { tokens: await beginSession(deps, session, sessionEpoch, context), user };
}
