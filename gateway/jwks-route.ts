import type { JwksCache } from "./jwks-cache.ts";
import type { GatewayApp } from "./request-state.ts";

/** The public keys (RFC 7517 §5, RFC 8615), for services that verify signatures themselves. */
export function registerJwksRoute(app: GatewayApp, jwks: JwksCache): void {
  app.get("/.well-known/jwks.json", { config: { auth: "public" } }, async (request, reply) => {
    const { json, maxAgeS } = await jwks.get(request.call);
    reply.header("content-type", "application/jwk-set+json; charset=utf-8");
    reply.header("cache-control", `public, max-age=${maxAgeS}`);
    return json;
  });
}
