import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { AuditActor } from "../../audit-client/audit-entry.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import type { TokenVerifier } from "../../token-client/principal.ts";
import { clientOf } from "../edge/client-of.ts";
import { deviceTokenOf, keepDeviceToken } from "../edge/device-cookie.ts";
import { success } from "../edge/envelope.ts";
import { addFormParser } from "../edge/form-parser.ts";
import { HTTP_FOUND, HTTP_SEE_OTHER } from "../edge/http-errors.ts";
import { messagePage } from "../edge/link-pages.ts";
import type { FailurePage, GatewayApp } from "../edge/request-state.ts";
import type { KnownPaths } from "../routing/known-paths.ts";
import { returnToField } from "./body-fields.ts";
import { loginAnswer } from "./login-answer.ts";
import type { OAuthClient, OAuthResult } from "./oauth-client.ts";
import { browserTokenOf, keepBrowserToken } from "./oauth-cookie.ts";
import { oauthDocs } from "./oauth-docs.ts";
import { oauthRedirect, type TokenDelivery } from "./oauth-redirect.ts";

/** Asking a provider takes 5 s at most; then there is a session to begin. */
const CALLBACK_BUDGET_MS = 8_000;
const MAX_PARAMETER_CHARACTERS = 4_096;
const STATE_CHARACTERS = 43;

/** Any text in its place is a name: what is none of ours is `provider_not_found`. The router takes no longer one. */
export const ProviderParams = z.strictObject({
  provider: z
    .string()
    .max(100)
    .meta({
      description: "A `name` of `GET /auth/providers`.",
      pattern: "^[a-z][a-z0-9-]{0,31}$",
      examples: ["google"],
    }),
});
const BeginQuery = z.strictObject({
  returnTo: returnToField.optional(),
  codeChallenge: z
    .string()
    .length(43)
    .optional()
    .meta({ description: "S256 of a verifier (RFC 7636, section 4.2)." }),
});
/** What is too long, or there twice, is as good as missing: it is refused where the flow's state is looked for. */
const parameter = z
  .string()
  .max(MAX_PARAMETER_CHARACTERS)
  .catch("")
  .meta({ default: undefined, examples: [""] });
/** The document asks for one of ours. What is none of ours is `oauth_state_invalid`, not `validation_failed`. */
const state = parameter.meta({
  minLength: STATE_CHARACTERS,
  maxLength: STATE_CHARACTERS,
  examples: ["cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E"],
});
/** Not strict: providers add parameters of their own. `error_description` is not read, so nothing can repeat it. */
const Answer = z
  .object({ code: parameter, state, iss: parameter, error: parameter })
  .meta({ required: ["state"] });
/** Longer than any of ours; what is none of ours is `oauth_code_invalid`. */
const ExchangeBody = z.strictObject({
  code: z
    .string()
    .min(1)
    .max(200)
    .meta({ examples: ["cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E"] }),
  codeVerifier: z
    .string()
    .min(1)
    .max(200)
    .meta({
      description: "Of the `codeChallenge`.",
      examples: ["dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"],
    }),
});

export interface OAuthBackends {
  oauth: OAuthClient;
  tokenDelivery: TokenDelivery;
  verifier: Pick<TokenVerifier, "refuseSession">;
}

/**
 * Logins at identity providers. `/auth/:provider` is a pattern that the paths of others fit into: for those it is as if
 * it were not there.
 */
export function registerOAuthRoutes(
  app: GatewayApp,
  { oauth, tokenDelivery, verifier }: OAuthBackends,
  paths: KnownPaths,
): void {
  const notOurs = async (request: FastifyRequest, reply: FastifyReply) => {
    const [path = ""] = (request.raw.url ?? "").split("?", 1);
    if (!paths.isLiteral(path)) return;
    reply.callNotFound();
    return reply;
  };

  app.get("/auth/providers", { config: { auth: "public", docs: oauthDocs.listProviders } }, async (request) =>
    success({ providers: await oauth.listProviders(request.call) }, "The identity providers."),
  );

  app.get(
    "/auth/:provider",
    {
      config: { auth: "public", failurePage, docs: oauthDocs.beginOAuthLogin },
      exposeHeadRoute: false,
      onRequest: notOurs,
      schema: { params: ProviderParams, querystring: BeginQuery },
    },
    async (request, reply) => {
      const { returnTo = "", codeChallenge = "" } = request.query;
      const browser = browserTokenOf(request);
      const { clientIp } = clientOf(request);
      const deviceToken = deviceTokenOf(request);
      const asked = { ...request.params, returnTo, codeChallenge, clientIp, deviceToken };
      const beginning = { ...asked, ...browser, linkTo: undefined };
      const departure = await oauth.begin(beginning, request.call);
      keepBrowserToken(reply, departure);
      return reply.code(HTTP_FOUND).header("location", departure.authorizationUrl).send();
    },
  );

  app.get(
    "/auth/:provider/callback",
    {
      // It makes users and sessions: the audit log has it, although it is a GET.
      config: {
        auth: "public",
        action: "auth.oauth_login",
        hasEffect: true,
        failurePage,
        docs: oauthDocs.completeOAuthLogin,
      },
      exposeHeadRoute: false,
      preValidation: refuseStrangers,
      schema: { params: ProviderParams, querystring: Answer },
    },
    async (request, reply) => {
      const arrival = {
        ...request.params,
        ...request.query,
        ...browserTokenOf(request),
        ...clientOf(request),
        deviceToken: deviceTokenOf(request),
      };
      const completion = await oauth.complete(arrival, withLongBudget(request.call));
      const { returnTo, result, endedSessionIds } = completion;
      for (const id of endedSessionIds) verifier.refuseSession(id);
      request.provenActor = actorOf(result);
      if ("refused" in result) request.errorCode = result.refused;
      if ("tokens" in result) keepDeviceToken(request, reply, result.deviceToken);
      return reply
        .code(HTTP_FOUND)
        .header("location", oauthRedirect(returnTo, result, tokenDelivery))
        .send();
    },
  );

  app.register(async (scope: GatewayApp) => {
    addFormParser(scope);
    // `response_mode=form_post` (Apple): a POST from elsewhere brings no `Lax` cookie, the GET that it becomes does.
    scope.post(
      "/auth/:provider/callback",
      {
        config: {
          auth: "public",
          action: "auth.oauth_form_post",
          failurePage,
          docs: oauthDocs.receiveOAuthForm,
        },
        schema: { params: ProviderParams, body: Answer },
      },
      async (request, reply) => {
        const given = Object.entries(request.body).filter(([, value]) => value !== "");
        const [path = ""] = (request.raw.url ?? "").split("?", 1);
        return reply
          .code(HTTP_SEE_OTHER)
          .header("location", `${path}?${new URLSearchParams(given)}`)
          .send();
      },
    );
  });

  app.post(
    "/auth/oauth/exchange",
    {
      config: { auth: "public", action: "auth.oauth_exchange", docs: oauthDocs.exchangeOAuthCode },
      schema: { body: ExchangeBody },
    },
    async (request, reply) => {
      const attempt = { ...request.body, ...clientOf(request), deviceToken: deviceTokenOf(request) };
      return loginAnswer(request, reply, await oauth.exchange(attempt, request.call));
    },
  );
}

/** Before anything is asked or written down: whoever brings no state, or no cookie, has no flow with us. */
async function refuseStrangers(request: FastifyRequest): Promise<void> {
  const { state } = (request.query ?? {}) as { state?: unknown };
  const { browserToken } = browserTokenOf(request);
  if (typeof state !== "string" || state.length !== STATE_CHARACTERS || browserToken === "") {
    throw new DomainError("oauth_state_invalid");
  }
}

function withLongBudget(call: CallContext): CallContext {
  return { ...call, deadlineMs: Date.now() + CALLBACK_BUDGET_MS };
}

function actorOf(result: OAuthResult): AuditActor | null {
  if ("refused" in result) return null;
  if ("pending" in result) return { userId: result.pending.userId };
  if (!("tokens" in result)) return { userId: result.userId };
  return { userId: result.user.id, role: result.user.role, sessionId: result.tokens.sessionId };
}

/** For browsers, which are what comes here. */
const failurePage: FailurePage = (error, message) =>
  error.code === "oauth_state_invalid"
    ? messagePage(
        "This login is over",
        "It took too long, was used already, or began in another browser. Go back and begin again.",
      )
    : messagePage("This login did not work", message);
