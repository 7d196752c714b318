import { z } from "zod";
import type { LinkedIdentity } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { success } from "../edge/answers/envelope.ts";
import { ownerOf, principalOf } from "../edge/request/caller.ts";
import type { GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { optional, textLike } from "../routing/fields.ts";
import { answersWith } from "../routing/route-docs.ts";
import { timeField } from "./answer-fields.ts";
import { OWN_LEVEL, passwordField, returnToField } from "./body-fields.ts";
import type { AuthDeps } from "./login-answer.ts";
import { browserTokenOf, keepBrowserToken } from "./oauth-cookie.ts";
import { ProviderParams } from "./oauth-routes.ts";

/** For accounts with a password. */
const password = passwordField.optional();
const LinkBody = z.strictObject({ password, returnTo: returnToField.optional() });
const UnlinkBody = z.strictObject({ password }).optional();

const identityAnswer = z
  .strictObject({
    provider: textLike("google"),
    email: optional(textLike("ada@example.com", "As the provider gave it.")),
    linkedAt: timeField,
  })
  .meta({
    id: "LinkedIdentity",
    description: "An account at an identity provider that opens the user's own.",
  });
const departureAnswer = z.strictObject({ url: textLike("https://accounts.example.com/authorize?state=x") });

/** Errors of `proveOwner` in identity-service. */
const ownerCodes = ["step_up_required", "reauthentication_required", "invalid_credentials", "busy"] as const;

export function registerIdentityLinkRoutes(app: GatewayApp, { identity, verifier }: AuthDeps): void {
  const route = routeIn(app, "Identity providers");

  route("listIdentities", "GET", "/auth/me/identities", {
    summary: "List the accounts at identity providers that one can log in with",
    policy: { auth: "authenticated", limitClass: "account" },
    answers: answersWith(
      "One of each provider at most.",
      z.strictObject({ identities: z.array(identityAnswer) }),
    ),
    handler: async (request) => {
      const { userId } = principalOf(request);
      const { identities } = await identity.listLinkedIdentities({ userId }, request.state.call);
      return success({ identities: identities.map(toIdentity) }, "The ways to log in beside a password.");
    },
  });

  route("linkIdentity", "POST", "/auth/me/identities/:provider", {
    summary: "Link an account at an identity provider",
    description:
      "Needs the password; of an account without one, a login in the last ten minutes. Send the browser to `url`: it " +
      "comes back to `returnTo` with `#linked=` and the provider, or with `#error=` and a code. 403 `email_not_verified` " +
      "while the account's credentials are not proven: see `POST /auth/verify-email`. " +
      OWN_LEVEL,
    policy: { auth: "authenticated", limitClass: "account", action: "auth.identity.link" },
    schema: { params: ProviderParams, body: LinkBody },
    answers: answersWith("Where to send the browser.", departureAnswer, {
      "Set-Cookie":
        "`gatehouse_oauth` (over HTTPS `__Host-gatehouse_oauth`): only this browser can finish it.",
    }),
    codes: ["provider_not_found", "not_found", "already_linked", "email_not_verified", ...ownerCodes],
    handler: async (request, reply) => {
      const { password = "", returnTo = "" } = request.body;
      const linkTo = { ...ownerOf(request), password };
      const { clientIp } = linkTo;
      // The session identifies the caller.
      const asked = {
        ...request.params,
        returnTo,
        codeChallenge: "",
        isAfresh: false,
        clientIp,
        deviceToken: "",
      };
      const beginning = { ...asked, ...browserTokenOf(request), linkTo };
      const departure = await identity.beginOAuthLogin(beginning, request.state.call);
      keepBrowserToken(reply, departure);
      return success({ url: departure.authorizationUrl }, "Send the browser there.");
    },
  });

  route("unlinkIdentity", "DELETE", "/auth/me/identities/:provider", {
    summary: "Take an account at an identity provider away",
    description:
      "Needs the password; of an account without one, a login in the last ten minutes. Every other session ends. " +
      OWN_LEVEL,
    policy: { auth: "authenticated", limitClass: "account", action: "auth.identity.unlink" },
    schema: { params: ProviderParams, body: UnlinkBody },
    answers: answersWith("It opens the account no more."),
    codes: ["not_found", "last_credential", ...ownerCodes],
    handler: async (request) => {
      const owner = { ...ownerOf(request), password: request.body?.password ?? "" };
      const { endedSessionIds } = await identity.unlinkIdentity(
        { owner, ...request.params },
        request.state.call,
      );
      for (const id of endedSessionIds) verifier.refuseSession(id);
      return success({}, "Unlinked; your other sessions have ended.");
    },
  });
}

function toIdentity({ provider, email, linkedAt }: LinkedIdentity) {
  if (linkedAt === undefined) throw new Error("identity-service sent an identity without a time");
  return { provider, ...(email !== "" && { email }), linkedAt };
}
