import type { JwksCache } from "./jwks-cache.ts";
import type { GatewayApp } from "./request-state.ts";
import { serviceDocs } from "./service-docs.ts";

/** The public keys (RFC 7517 §5, RFC 8615), for services that verify signatures themselves. */
export function registerJwksRoute(app: GatewayApp, jwks: JwksCache): void {
  app.get(
    "/.well-known/jwks.json",
    { config: { auth: "public", docs: serviceDocs.getKeys } },
    async (request, reply) => {
      const { json, maxAgeS } = await jwks.get(request.call);
      reply.header("content-type", "application/jwk-set+json; charset=utf-8");
      reply.header("cache-control", `public, max-age=${maxAgeS}`);
      return json;
    },
  );
}
