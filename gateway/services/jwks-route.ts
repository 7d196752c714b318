import { z } from "zod";
import { type Cacheable, cacheable, sendCacheable } from "../edge/answers/cacheable.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textLike } from "../routing/fields.ts";
import { CACHE_HEADERS, UNCHANGED } from "../routing/route-docs.ts";
import type { JwksCache } from "./jwks-cache.ts";

const MEDIA_TYPE = "application/jwk-set+json";

const keySetAnswer = z
  .looseObject({
    keys: z.array(z.looseObject({ kty: textLike("OKP"), kid: textLike("2026-01-a") })),
  })
  .meta({ id: "JwkSet", description: "RFC 7517, section 5." });

/** RFC 7517 §5, RFC 8615. */
export function registerJwksRoute(app: GatewayApp, jwks: Pick<JwksCache, "get">): void {
  let keySet: { json: string; file: Cacheable } | undefined;
  routeIn(app, "Services")("getKeys", "GET", "/.well-known/jwks.json", {
    summary: "The public keys of access tokens",
    policy: { auth: "public", limitClass: "document" },
    answers: {
      200: { description: "A JWK Set.", content: { [MEDIA_TYPE]: keySetAnswer }, headers: CACHE_HEADERS },
      304: UNCHANGED,
    },
    handler: async (request, reply) => {
      const { json, maxAgeS } = await jwks.get(request.state.call);
      if (keySet?.json !== json) keySet = { json, file: cacheable(json, `${MEDIA_TYPE}; charset=utf-8`) };
      return sendCacheable(request, reply, keySet.file, `public, max-age=${maxAgeS}`);
    },
  });
}
