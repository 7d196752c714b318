import type { FastifyRequest } from "fastify";
import fastifyPlugin from "fastify-plugin";
import type { AssuranceDemand } from "./assurance.ts";
import { clientAddress } from "./client-address.ts";
import { httpRefusal, type OnRefusal, REFUSAL_TYPE, withStatus } from "./http-refusal.ts";
import type { Principal, RequestVerifier } from "./principal.ts";
import { admitRequest } from "./request-principal.ts";
import type { RouteAuth } from "./route-auth.ts";

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
  verifier: RequestVerifier;
  /**
   * The address of the client, never of a proxy: one network may have a share of the calls of token-service. Default: `request.ip`,
   * which goes by `trustProxy`, unless it is of a private network.
   */
  clientIp?: (request: FastifyRequest) => string | undefined;
  /** Default `answer`. `next`: the error handler gets the error, with its `statusCode`, and the headers are set. */
  onRefusal?: OnRefusal;
}

/**
 * Every route needs `config.auth`, and may have `config.assurance`. The handler of `setNotFoundHandler` is no route and always public:
 * it must not serve anything that is not.
 * @see RFC 6750 §3, RFC 9470 §3.
 */
export const fastifyBearerAuth = fastifyPlugin<BearerAuthOptions>(
  async (app, { verifier, clientIp = ({ ip }) => clientAddress(ip), onRefusal = "answer" }) => {
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
        const ip = clientIp(request);
        request.principal = await admitRequest(request.raw, verifier, { auth, assurance }, ip);
      } catch (error) {
        const refusal = httpRefusal(error, request.headers.authorization);
        if (refusal === undefined) throw error;
        for (const [name, value] of refusal.headers) reply.header(name, value);
        if (onRefusal === "next") throw withStatus(error, refusal);
        request.log.info({ errorCode: refusal.code }, "call refused");
        return reply.code(refusal.statusCode).header("content-type", REFUSAL_TYPE).send(refusal.body);
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
