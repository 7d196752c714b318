import type { FastifyRequest } from "fastify";
import { DomainError } from "../service-kit/errors.ts";
import type { TokenVerifier } from "../token-client/principal.ts";
import { bearerToken } from "./bearer-token.ts";

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
    const verification = await verifier.verify(token);
    if (verification.kind === "inactive") {
      throw new DomainError(verification.reason === "expired" ? "token_expired" : "token_invalid");
    }
    const { principal } = verification;
    const isAllowed = auth === "authenticated" || auth?.roles.includes(principal.role);
    if (!isAllowed) throw new DomainError("forbidden");
    const { userId, role, sessionId } = principal;
    request.principal = principal;
    request.accessToken = token;
    request.call = { ...request.call, actor: { userId, role, sessionId } };
  };
}
