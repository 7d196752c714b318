import type { FastifyRequest } from "fastify";
import { z } from "zod";
import type { TokenVerifier } from "../../token-client/principal.ts";
import { clientOf } from "../edge/client-of.ts";
import { success } from "../edge/envelope.ts";
import { principalOf } from "../edge/principal.ts";
import type { GatewayApp } from "../edge/request-state.ts";
import { passwordField, returnToField } from "./body-fields.ts";
import { identityLinkDocs } from "./identity-link-docs.ts";
import type { IdentityOwner, OAuthClient } from "./oauth-client.ts";
import { browserTokenOf, keepBrowserToken } from "./oauth-cookie.ts";
import { ProviderParams } from "./oauth-routes.ts";

/** Of an account that has a password. */
const password = passwordField.optional();
const LinkBody = z.strictObject({ password, returnTo: returnToField.optional() });
const UnlinkBody = z.strictObject({ password }).optional();

export interface IdentityLinkBackends {
  oauth: OAuthClient;
  verifier: Pick<TokenVerifier, "refuseSession">;
}

/** The accounts at identity providers that a user can log in with: see them, link one, take one away. */
export function registerIdentityLinkRoutes(app: GatewayApp, { oauth, verifier }: IdentityLinkBackends): void {
  app.get(
    "/auth/me/identities",
    { config: { auth: "authenticated", docs: identityLinkDocs.listIdentities } },
    async (request) => {
      const identities = await oauth.listIdentities(principalOf(request).userId, request.call);
      return success({ identities }, "The ways to log in beside a password.");
    },
  );

  app.post(
    "/auth/me/identities/:provider",
    {
      config: { auth: "authenticated", action: "auth.identity.link", docs: identityLinkDocs.linkIdentity },
      schema: { params: ProviderParams, body: LinkBody },
    },
    async (request, reply) => {
      const { password = "", returnTo = "" } = request.body;
      const linkTo = ownerOf(request, password);
      const beginning = {
        ...request.params,
        returnTo,
        codeChallenge: "",
        ...browserTokenOf(request),
        linkTo,
        clientIp: linkTo.clientIp,
        // The session identifies the caller.
        deviceToken: "",
      };
      const departure = await oauth.begin(beginning, request.call);
      keepBrowserToken(reply, departure);
      return success({ url: departure.authorizationUrl }, "Send the browser there.");
    },
  );

  app.delete(
    "/auth/me/identities/:provider",
    {
      config: {
        auth: "authenticated",
        action: "auth.identity.unlink",
        docs: identityLinkDocs.unlinkIdentity,
      },
      schema: { params: ProviderParams, body: UnlinkBody },
    },
    async (request) => {
      const owner = ownerOf(request, request.body?.password ?? "");
      const ended = await oauth.unlink({ owner, ...request.params }, request.call);
      for (const id of ended) verifier.refuseSession(id);
      return success({}, "Unlinked; your other sessions have ended.");
    },
  );
}

function ownerOf(request: FastifyRequest, password: string): IdentityOwner {
  const { userId, sessionId, authTime } = principalOf(request);
  return { userId, sessionId, authTime, password, ...clientOf(request) };
}
