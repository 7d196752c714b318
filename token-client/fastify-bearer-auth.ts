import type { FastifyError, FastifyReply, FastifyRequest } from "fastify";
import fastifyPlugin from "fastify-plugin";
import { DomainError, type ErrorCode } from "../service-kit/errors.ts";
import { type AssuranceDemand, assertAssured, stepUpChallenge, stepUpDemandOf } from "./assurance.ts";
import { verifyAuthorization } from "./bearer-token.ts";
import type { Principal, TokenVerifier } from "./principal.ts";
import { assertAllowed, type RouteAuth } from "./route-auth.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    auth?: RouteAuth;
    /** What the session of the caller must have proven. */
    assurance?: AssuranceDemand;
  }

  interface FastifyRequest {
    /** Null on public routes. */
    principal: Principal | null;
  }
}

export interface BearerAuthOptions {
  verifier: Pick<TokenVerifier, "verify">;
}

/** For applications without their own error handler. */
const STATUS: Partial<Record<ErrorCode, number>> = {
  token_missing: 401,
  token_invalid: 401,
  token_expired: 401,
  token_proof_missing: 401,
  token_proof_invalid: 401,
  step_up_required: 401,
  forbidden: 403,
  user_required: 403,
  too_many_requests: 429,
  service_unavailable: 503,
};

/** Every route needs `config.auth`, and may have `config.assurance`. @see RFC 6750 §3, RFC 9470 §3. */
export const fastifyBearerAuth = fastifyPlugin<BearerAuthOptions>(
  async (app, { verifier }) => {
    app.decorateRequest("principal", null);
    app.addHook("onRoute", ({ method, url, config }) => {
      if (config?.auth === undefined) throw new Error(`${method} ${url} has no config.auth`);
      if (config.auth === "public" && config.assurance !== undefined)
        throw new Error(`${method} ${url} is public and demands a level of assurance`);
    });
    app.addHook("onRequest", async (request, reply) => {
      const { auth, assurance } = request.routeOptions.config;
      if (request.is404 || auth === "public") return;
      try {
        request.principal = await verifyAuthorization(verifier, request.headers.authorization);
        assertAllowed(auth, request.principal);
        assertAssured(assurance, request.principal, Date.now());
      } catch (error) {
        throw answerable(error, reply);
      }
    });
  },
  { name: "gatehouse-bearer-auth", fastify: "5.x" },
);

export function principalIn(request: FastifyRequest): Principal {
  if (request.principal === null)
    throw new Error(`${request.routeOptions.url} is public and has no principal`);
  return request.principal;
}

function answerable(error: unknown, reply: FastifyReply): unknown {
  if (!(error instanceof DomainError)) return error;
  const statusCode = STATUS[error.code] ?? 500;
  if (statusCode === 401) reply.header("www-authenticate", challengeOf(error));
  if (error.retryAfterMs !== undefined) reply.header("retry-after", Math.ceil(error.retryAfterMs / 1_000));
  return Object.assign(error, { statusCode } satisfies Partial<FastifyError>);
}

function challengeOf(error: DomainError): string {
  const demand = stepUpDemandOf(error);
  if (demand !== undefined) return stepUpChallenge(demand);
  if (error.code.startsWith("token_proof")) return 'DPoP error="invalid_token"';
  return error.code === "token_missing" ? "Bearer" : 'Bearer error="invalid_token"';
}
