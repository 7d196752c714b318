import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { takeCode } from "../identities/oauth-store.ts";
import { completeLogin } from "../login/complete-login.ts";
import type { LoginResult } from "../login/login-result.ts";
import { recogniseCaller, spendLogin } from "../login/recognise-caller.ts";
import type { LoginOrigin } from "../login/remember-device.ts";
import { findAccountById } from "../users/account-store.ts";
import { assertMayLogIn, type OAuthDeps } from "./begin-oauth-login.ts";
import { challengeOf, handleHash } from "./oauth-flow-secrets.ts";

/** RFC 7636 §4.1. */
const VERIFIER = /^[A-Za-z0-9._~-]{43,128}$/;
const REFUSAL = "oauth_code_invalid";

export interface CodeExchange extends LoginOrigin {
  code: string;
  codeVerifier: string;
}

/** A wrong verifier consumes the code too. @throws {DomainError} `oauth_code_invalid`, `email_not_verified`, `too_many_requests`. */
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
  const user = await findAccountById(deps.sql, userId);
  if (user?.status !== "active" || user.sessionEpoch !== sessionEpoch) throw new DomainError(REFUSAL);
  assertMayLogIn(deps, user);
  const caller = await recogniseCaller(deps, request, user.email);
  await spendLogin(deps, "provider", caller);
  const proven = { user, amr: ["fed"], authTime, ifEnded: REFUSAL } as const;
  return completeLogin(deps, proven, { ...request, device: caller.device }, context);
}
