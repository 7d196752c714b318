import type { GatewayApp } from "../edge/request-state.ts";
import { type Cacheable, cacheable, sendCacheable } from "../openapi/cacheable.ts";
import type { JwksCache } from "./jwks-cache.ts";
import { serviceDocs } from "./service-docs.ts";

const MEDIA_TYPE = "application/jwk-set+json; charset=utf-8";

/** The public keys (RFC 7517 §5, RFC 8615), for services that verify signatures themselves. */
export function registerJwksRoute(app: GatewayApp, jwks: Pick<JwksCache, "get">): void {
  let keySet: { json: string; file: Cacheable } | undefined;
  app.get(
    "/.well-known/jwks.json",
    { config: { auth: "public", docs: serviceDocs.getKeys } },
    async (request, reply) => {
      const { json, maxAgeS } = await jwks.get(request.call);
      if (keySet?.json !== json) keySet = { json, file: cacheable(json, MEDIA_TYPE) };
      return sendCacheable(request, reply, keySet.file, maxAgeS);
    },
  );
}
