import type { FastifyRequest } from "fastify";
import type { AccessRules } from "#access-file/access-rules.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { CompletedLogin, LoginResult } from "#proto/gatehouse/identity/v1/identity_service.ts";
import type { TokenVerifier } from "#token-client/principal.ts";
import type { Backends } from "../backends/backends.ts";
import { success } from "../edge/answers/envelope.ts";
import type { ProofsOfKeys } from "../edge/proofs-of-keys.ts";
import { isBrowserSession, keptRefreshTokens } from "../edge/request/browser-session.ts";
import type { IdentifiedAnswer } from "../edge/request/route.ts";
import { toUser } from "./answer-fields.ts";
import { readRequestOptions } from "./passkey-fields.ts";

/** The verifier refuses ended sessions before the revocation stream does. */
export interface AuthDeps extends Pick<Backends, "identity" | "sessions"> {
  verifier: Pick<TokenVerifier, "verify" | "refuseSession">;
  access: Pick<AccessRules, "permissionsOf">;
  proofsOfKeys: Pick<ProofsOfKeys, "ofCall" | "useOfCall">;
}

export function loginAnswer(result: LoginResult["result"]): IdentifiedAnswer {
  if (result?.$case === "mfaChallenge") {
    const { tempToken, methods, userId, trustDeviceDays, passkeyOptionsJson } = result.value;
    const passkey = readRequestOptions(passkeyOptionsJson);
    const offer = trustDeviceDays !== undefined && { trustDeviceDays };
    const asked = { requireMfa: true, tempToken, methods, ...(passkey && { passkey }), ...offer };
    const body = success(asked, "The second factor is needed.");
    return { body, actor: { userId } };
  }
  if (result?.$case === "passwordChange") {
    const { tempToken, userId } = result.value;
    const body = success({ requirePasswordChange: true, tempToken }, "The password has to be changed.");
    return { body, actor: { userId } };
  }
  if (result?.$case === "mfaEnrollment") {
    const { tempToken, methods, userId } = result.value;
    const body = success(
      { requireMfaEnrollment: true, tempToken, methods },
      "A second factor has to be set up first.",
    );
    return { body, actor: { userId } };
  }
  const { tokens, user, actor, deviceToken } = toCompletedLogin(result?.value);
  return { body: success({ user }, "Logged in."), tokens, actor, deviceToken };
}

/** Of a factor that was set up at a login. @throws without a session, so that an unknown result does not log in. */
export function enrolledAnswer(
  { result, recoveryCodes }: { result: LoginResult | undefined; recoveryCodes: string[] },
  message: string,
  more: object = {},
): IdentifiedAnswer {
  if (result?.result?.$case !== "completed") throw new Error("the enrollment did not complete the login");
  const { tokens, user, actor, deviceToken } = toCompletedLogin(result.result.value);
  return { body: success({ ...more, user, recoveryCodes }, message), tokens, actor, deviceToken };
}

/** @throws without a session, so that an unknown result does not log in. */
export function toCompletedLogin(message: CompletedLogin | undefined) {
  if (message?.tokens === undefined) {
    throw new Error("identity-service sent a login result that this gateway cannot read");
  }
  const { tokens, deviceToken } = message;
  const user = toUser(message.user);
  const actor = { userId: user.id, role: user.role, sessionId: tokens.sessionId };
  return { tokens, user, actor, deviceToken };
}

/**
 * A browser holds one session: what a completed login replaces ends, before the answer takes its cookie away. A cookie that
 * proves no live session changes nothing, and of two none is used.
 *
 * @returns the answer.
 * @throws {DomainError} `service_unavailable` if the session may still live. Nobody gets the new tokens then, and the
 *   cookie stays for the next try.
 */
export async function endReplacedSession(
  { sessions, verifier }: Pick<AuthDeps, "sessions" | "verifier">,
  request: FastifyRequest,
  answer: IdentifiedAnswer,
): Promise<IdentifiedAnswer> {
  if (answer.tokens === undefined || !isBrowserSession(request)) return answer;
  const [refreshToken, ...others] = keptRefreshTokens(request);
  if (refreshToken === undefined || others.length > 0) return answer;
  const { call } = request.state;
  const proof = { refreshToken, confirmation: call.proven };
  const replaced = await sessions.proveRefreshToken(proof, call).catch(unlessInvalid);
  if (replaced === undefined) return answer;
  await sessions.revokeSession({ ...replaced, reason: "replaced" }, call);
  verifier.refuseSession(replaced.sessionId);
  return answer;
}

function unlessInvalid(error: unknown): undefined {
  if (!(error instanceof DomainError) || error.code !== "refresh_token_invalid") throw error;
}
