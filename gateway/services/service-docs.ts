import { z } from "zod";
import { idField, roleField } from "../auth/answer-fields.ts";
import { CACHE_HEADERS, describeRoutes, FORM_TYPE, JSON_TYPE, UNCHANGED } from "../routing/route-docs.ts";

const seconds = z
  .int()
  .optional()
  .meta({ description: "Seconds since 1970.", examples: [1_767_322_800] });

const introspection = z
  .strictObject({
    active: z.boolean(),
    iss: z
      .string()
      .optional()
      .meta({ examples: ["https://gateway.example.com"] }),
    sub: idField.optional(),
    sid: idField.optional(),
    exp: seconds,
    iat: seconds,
    jti: z
      .string()
      .optional()
      .meta({ examples: ["0199a000-0000-7000-8000-000000000005"] }),
    role: roleField.optional(),
    amr: z.array(z.string().meta({ examples: ["pwd"] })).optional(),
    auth_time: seconds,
    token_type: z.literal("Bearer").optional(),
  })
  .meta({ id: "Introspection", description: "Of a token that is not active, nothing but that." });

const keySet = z
  .looseObject({
    keys: z.array(
      z.looseObject({
        kty: z.string().meta({ examples: ["OKP"] }),
        kid: z.string().meta({ examples: ["2026-01-a"] }),
      }),
    ),
  })
  .meta({ id: "JwkSet", description: "RFC 7517, section 5." });

export const serviceDocs = describeRoutes("Services", {
  getKeys: {
    summary: "The public keys of access tokens",
    answers: {
      200: {
        description: "A JWK Set.",
        content: { "application/jwk-set+json": keySet },
        headers: CACHE_HEADERS,
      },
      304: UNCHANGED,
    },
  },
  introspectToken: {
    summary: "Introspect an access token (RFC 7662)",
    description: "For services that can neither speak gRPC nor verify signatures. The answer is the RFC's.",
    answers: { 200: { description: "What is known of it.", content: { [JSON_TYPE]: introspection } } },
    codes: ["invalid_client"],
    bodyTypes: [FORM_TYPE],
    isForClients: true,
  },
});
