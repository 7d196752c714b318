import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { takeCode } from "../identities/oauth-store.ts";
import type { PendingLogin } from "../login/begin-mfa-challenge.ts";
import type { CompletedLogin } from "../login/login.ts";
import { findAccountOfUser } from "../users/user-store.ts";
import { finishOAuthLogin } from "./finish-oauth-login.ts";
import type { CallOrigin, OAuthDeps } from "./oauth-deps.ts";
import { challengeOf, handleHash } from "./oauth-flow-secrets.ts";

/** RFC 7636 §4.1. */
const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/;

/**
 * Begins the session that a one-time code stands for, or the wait for the code of a second factor. Any use ends the code,
 * also one with a wrong verifier: who has only seen it must not try again.
 *
 * @throws {DomainError} `oauth_code_invalid`; `email_not_verified`; `service_unavailable`, after which the code is used.
 */
export async function exchangeOAuthCode(
  deps: OAuthDeps,
  request: CallOrigin & { code: string; codeVerifier: string },
  context: CallContext,
): Promise<CompletedLogin | { pending: PendingLogin }> {
  const codeHash = handleHash(request.code);
  const taken = codeHash && (await takeCode(deps.sql, { codeHash, now: deps.now() }));
  const isBound =
    VERIFIER.test(request.codeVerifier) && taken?.codeChallenge === challengeOf(request.codeVerifier);
  if (taken === undefined || !isBound) throw new DomainError("oauth_code_invalid");
  const account = await findAccountOfUser(deps.sql, taken.userId);
  if (account?.status !== "active" || account.sessionEpoch !== taken.sessionEpoch) {
    throw new DomainError("oauth_code_invalid");
  }
  const { sessionEpoch, authTime } = taken;
  try {
    return await finishOAuthLogin(deps, { user: account.user, sessionEpoch, authTime }, request, context);
  } catch (error) {
    // Sessions were ended while this one began.
    const isEnded = error instanceof DomainError && error.code === "invalid_credentials";
    throw isEnded ? new DomainError("oauth_code_invalid", undefined, { cause: error }) : error;
  }
}
