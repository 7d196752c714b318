import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { takeCode } from "../identities/oauth-store.ts";
import { completeLogin, type LoginResult } from "../login/complete-login.ts";
import type { LoginOrigin } from "../login/remember-device.ts";
import { findAccountOfUser } from "../users/user-store.ts";
import { assertMayLogIn, type OAuthDeps } from "./oauth-deps.ts";
import { challengeOf, handleHash } from "./oauth-flow-secrets.ts";

/** RFC 7636 §4.1. */
const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/;
const REFUSAL = "oauth_code_invalid";

export interface CodeExchange extends LoginOrigin {
  code: string;
  codeVerifier: string;
}

/** A wrong verifier consumes the code too. @throws {DomainError} `oauth_code_invalid`, `email_not_verified`. */
export function exchangeOAuthCode(
  deps: OAuthDeps,
  request: CodeExchange,
  context: CallContext,
): Promise<LoginResult> {
  return deps.countLogin("code", exchange(deps, request, context));
}

async function exchange(deps: OAuthDeps, request: CodeExchange, context: CallContext): Promise<LoginResult> {
  const codeHash = handleHash(request.code);
  const taken = codeHash && (await takeCode(deps.sql, { codeHash, now: deps.now() }));
  const isBound =
    VERIFIER.test(request.codeVerifier) && taken?.codeChallenge === challengeOf(request.codeVerifier);
  if (taken === undefined || !isBound) throw new DomainError(REFUSAL);
  const { sessionEpoch, authTime, userId } = taken;
  const account = await findAccountOfUser(deps.sql, userId);
  if (account?.status !== "active" || account.sessionEpoch !== sessionEpoch) throw new DomainError(REFUSAL);
  const { user, mustChangePassword } = account;
  assertMayLogIn(deps, user);
  const proven = { user, sessionEpoch, mustChangePassword, amr: ["fed"], authTime };
  return completeLogin(deps, proven, request, REFUSAL, context);
}
