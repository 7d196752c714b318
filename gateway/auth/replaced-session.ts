import type { FastifyRequest } from "fastify";
import { DomainError } from "#kit/values/errors.ts";
import { isBrowserSession, keptRefreshTokens } from "../edge/request/browser-session.ts";
import type { IdentifiedAnswer } from "../edge/request/route.ts";
import type { AuthDeps } from "./auth-deps.ts";

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
