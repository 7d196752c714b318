import type { FastifyRequest } from "fastify";
import { z } from "zod";
import { DomainError } from "#kit/values/errors.ts";
import { isApiKey, tokenTypeOf } from "#token-client/bearer-token.ts";
import type { TokenVerifier } from "#token-client/principal.ts";
import type { Backends } from "../backends/backends.ts";
import type { ProofsOfKeys } from "../edge/proofs-of-keys.ts";
import { clientIp } from "../edge/request/caller.ts";
import { registerFormParser } from "../edge/request/request-body.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { intLike, optional, textField, textLike } from "../routing/fields.ts";
import { FORM_TYPE, JSON_TYPE } from "../routing/route-docs.ts";
import {
  assertSameClient,
  clientActor,
  clientAuthentication,
  refuseWithoutProof,
} from "./client-authentication.ts";

/** Other parameters are ignored (RFC 6749 §3.2). */
const TokenBody = z.looseObject({
  grant_type: textField(1, 100).meta({ enum: ["client_credentials"], examples: ["client_credentials"] }),
  scope: optional(textField(0, 8_192, { examples: ["payments:read"] })),
});
const RevocationBody = z.looseObject({
  token: textField(1, 8_192, { examples: ["eyJhbGciOiJFZERTQSJ9.e30.AA"] }),
  token_type_hint: optional(textField(0, 100, { examples: ["access_token"] })),
});
const tokenAnswer = z
  .strictObject({
    access_token: textLike("eyJhbGciOiJFZERTQSJ9.e30.AA", "A JWT; see RFC 9068."),
    token_type: z.enum(["Bearer", "DPoP"]),
    expires_in: intLike(900, "Seconds."),
    scope: textLike("payments:read"),
  })
  .meta({ id: "ClientToken", description: "RFC 6749, section 5.1. There is no refresh token." });

interface TokenRoutesDeps extends Pick<Backends, "clients" | "sessions"> {
  verifier: Pick<TokenVerifier, "verify" | "refuseSession">;
  proofsOfKeys: Pick<ProofsOfKeys, "certificateOf">;
  /** Tokens are bound to the certificate of the client that shows one (RFC 8705 §3). */
  bindsToCertificates: boolean;
}

/** RFC 6749 §4.4 and RFC 7009, in their own forms. */
export function registerTokenRoutes(app: GatewayApp, deps: TokenRoutesDeps): void {
  const { clients, sessions, verifier } = deps;
  const provenBy = (request: FastifyRequest) => {
    const { jkt = "" } = request.state.call.proven ?? {};
    const x5tS256 = deps.bindsToCertificates ? deps.proofsOfKeys.certificateOf(request) : "";
    return jkt === "" && x5tS256 === "" ? undefined : { jkt, x5tS256 };
  };
  const common = {
    isForClients: true,
    failureForm: "oauth" as const,
    bodyTypes: [FORM_TYPE],
    options: { onRequest: refuseWithoutProof },
  };
  app.register(async (scope: GatewayApp) => {
    registerFormParser(scope);
    const route = routeIn(scope, "Clients");

    route("issueClientToken", "POST", "/oauth/token", {
      summary: "Get an access token as a client (RFC 6749, section 4.4)",
      description:
        "With `client_secret_basic`, or instead with `private_key_jwt` (RFC 7523): `client_assertion_type` and " +
        "`client_assertion` in the form, where `aud` is the issuer. With a `DPoP` proof the token is bound to its key.",
      policy: { auth: "public", limitClass: "client", action: "client.token", issuesTokens: true },
      ...common,
      schema: { body: TokenBody },
      answers: { 200: { description: "The token.", content: { [JSON_TYPE]: tokenAnswer } } },
      codes: ["invalid_client", "invalid_scope", "unsupported_grant_type"],
      identify: async (request, reply) => {
        const { body } = request;
        if (body.grant_type !== "client_credentials") throw new DomainError("unsupported_grant_type");
        const authentication = clientAuthentication(request);
        const confirmation = provenBy(request);
        const wanted = { authentication, scope: body.scope ?? "", confirmation };
        const granted = await clients.grantClientToken(wanted, request.state.call);
        assertSameClient(request, granted.clientId);
        reply.header("pragma", "no-cache");
        return {
          body: {
            access_token: granted.accessToken,
            token_type: tokenTypeOf(confirmation),
            expires_in: granted.expiresInS,
            scope: granted.scope,
          },
          actor: clientActor(granted),
        };
      },
    });

    route("revokeClientToken", "POST", "/oauth/revoke", {
      summary: "Revoke an access token of the client (RFC 7009)",
      description: "The token is refused at once. A text that is no valid token is answered in the same way.",
      policy: { auth: "public", limitClass: "client", action: "client.token_revoke" },
      ...common,
      schema: { body: RevocationBody },
      answers: {
        200: { description: "It is not valid any more.", content: { [JSON_TYPE]: z.strictObject({}) } },
      },
      codes: ["invalid_client", "unauthorized_client", "unsupported_token_type"],
      identify: async (request) => {
        const { body } = request;
        const authentication = clientAuthentication(request);
        const client = await clients.authenticateClient({ authentication }, request.state.call);
        assertSameClient(request, client.clientId);
        if (isApiKey(body.token)) throw new DomainError("unsupported_token_type");
        const verification = await verifier.verify(body.token, clientIp(request));
        if (verification.kind === "active") {
          const { clientId, tokenId } = verification.principal;
          if (clientId !== client.clientId) throw new DomainError("unauthorized_client");
          await sessions.revokeClientTokens({ ids: [tokenId] }, request.state.call);
          verifier.refuseSession(tokenId);
        }
        return { body: {}, actor: clientActor(client) };
      },
    });
  });
}
