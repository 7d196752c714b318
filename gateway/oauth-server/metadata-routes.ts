import { z } from "zod";
import { DPOP_ALGORITHMS } from "../edge/proofs/dpop-proof.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textLike } from "../routing/fields.ts";
import { JSON_TYPE } from "../routing/route-docs.ts";

const url = textLike("https://gateway.example.com/oauth/token");
const names = z.array(textLike("client_secret_basic"));
const serverAnswer = z
  .strictObject({
    issuer: textLike("https://gateway.example.com"),
    token_endpoint: url,
    revocation_endpoint: url,
    introspection_endpoint: url,
    jwks_uri: url,
    service_documentation: url,
    response_types_supported: names,
    grant_types_supported: names,
    token_endpoint_auth_methods_supported: names,
    token_endpoint_auth_signing_alg_values_supported: names,
    revocation_endpoint_auth_methods_supported: names,
    revocation_endpoint_auth_signing_alg_values_supported: names,
    introspection_endpoint_auth_methods_supported: names,
    dpop_signing_alg_values_supported: names,
    tls_client_certificate_bound_access_tokens: z.boolean(),
  })
  .meta({ id: "AuthorizationServer", description: "RFC 8414, section 2." });
const resourceAnswer = z
  .strictObject({
    resource: textLike("https://gateway.example.com"),
    authorization_servers: names,
    jwks_uri: url,
    bearer_methods_supported: names,
    dpop_signing_alg_values_supported: names,
    tls_client_certificate_bound_access_tokens: z.boolean(),
    dpop_bound_access_tokens_required: z.boolean(),
    resource_documentation: url,
  })
  .meta({ id: "ProtectedResource", description: "RFC 9728, section 2." });

const MAX_AGE_S = 300;
const METHODS = ["private_key_jwt", "client_secret_basic"];
const ALGORITHMS = ["EdDSA", "Ed25519", "ES256", "PS256", "RS256"];

/** @param issuer of tokens. @throws {DomainError} `service_unavailable` before token-service was reached once. */
export function registerMetadataRoutes(
  app: GatewayApp,
  { tokenIssuer, bindsToCertificates }: { tokenIssuer: () => string; bindsToCertificates: boolean },
): void {
  const route = routeIn(app, "Clients");
  const policy = { auth: "public", limitClass: "document" } as const;

  route("getAuthorizationServer", "GET", "/.well-known/oauth-authorization-server", {
    summary: "Where and how clients get tokens (RFC 8414)",
    policy,
    answers: { 200: { description: "The metadata.", content: { [JSON_TYPE]: serverAnswer } } },
    handler: async (_request, reply) => {
      const issuer = tokenIssuer();
      const at = (path: string) => new URL(path, issuer).href;
      reply.header("cache-control", `public, max-age=${MAX_AGE_S}`);
      return {
        issuer,
        token_endpoint: at("/oauth/token"),
        revocation_endpoint: at("/oauth/revoke"),
        introspection_endpoint: at("/oauth/introspect"),
        jwks_uri: at("/.well-known/jwks.json"),
        service_documentation: at("/docs"),
        response_types_supported: [],
        grant_types_supported: ["client_credentials"],
        token_endpoint_auth_methods_supported: METHODS,
        token_endpoint_auth_signing_alg_values_supported: ALGORITHMS,
        revocation_endpoint_auth_methods_supported: METHODS,
        revocation_endpoint_auth_signing_alg_values_supported: ALGORITHMS,
        introspection_endpoint_auth_methods_supported: ["client_secret_basic"],
        dpop_signing_alg_values_supported: DPOP_ALGORITHMS,
        tls_client_certificate_bound_access_tokens: bindsToCertificates,
      };
    },
  });

  route("getProtectedResource", "GET", "/.well-known/oauth-protected-resource", {
    summary: "Whose tokens this API takes (RFC 9728)",
    policy,
    answers: { 200: { description: "The metadata.", content: { [JSON_TYPE]: resourceAnswer } } },
    handler: async (_request, reply) => {
      const issuer = tokenIssuer();
      reply.header("cache-control", `public, max-age=${MAX_AGE_S}`);
      return {
        resource: issuer,
        authorization_servers: [issuer],
        jwks_uri: new URL("/.well-known/jwks.json", issuer).href,
        bearer_methods_supported: ["header"],
        dpop_signing_alg_values_supported: DPOP_ALGORITHMS,
        tls_client_certificate_bound_access_tokens: bindsToCertificates,
        dpop_bound_access_tokens_required: false,
        resource_documentation: new URL("/docs", issuer).href,
      };
    },
  });
}
