import type { FastifyRequest } from "fastify";
import { bearerToken, principalOf } from "../token-client/bearer-token.ts";
import type { TokenVerifier } from "../token-client/principal.ts";
import { assertAllowed } from "../token-client/route-auth.ts";

/**
 * An `onRequest` hook that lets a call through to its route if the route's policy allows its caller.
 *
 * It throws `token_missing`, `token_invalid` (also for a revoked token), `token_expired`, `forbidden`, or
 * `service_unavailable` when the token's state cannot be known.
 */
export function createAuthenticate(verifier: Pick<TokenVerifier, "verify">) {
  return async (request: FastifyRequest): Promise<void> => {
    const { auth } = request.routeOptions.config;
    if (request.is404 || auth === "public") return;
    const token = bearerToken(request.headers.authorization);
    const principal = await principalOf(verifier, token);
    assertAllowed(auth, principal);
    const { userId, role, sessionId } = principal;
    request.principal = principal;
    request.accessToken = token;
    request.call = { ...request.call, actor: { userId, role, sessionId } };
  };
}
