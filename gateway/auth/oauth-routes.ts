import type { FastifyReply, FastifyRequest } from "fastify";
import { z } from "zod";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { success } from "../edge/answers/envelope.ts";
import { HTTP_FOUND, HTTP_SEE_OTHER } from "../edge/answers/http-errors.ts";
import { messagePage, type PageBrand } from "../edge/answers/link-pages.ts";
import { acceptedLanguage, clientIp, clientOf } from "../edge/request/caller.ts";
import { deviceTokenOf } from "../edge/request/device-cookie.ts";
import { addFormParser } from "../edge/request/request-body.ts";
import type { FailurePage, GatewayApp } from "../edge/request/request-state.ts";
import { routeIn } from "../edge/request/route.ts";
import { textField, textLike } from "../routing/fields.ts";
import type { KnownPaths } from "../routing/known-paths.ts";
import { answersWith, FORM_TYPE } from "../routing/route-docs.ts";
import { deviceHeader, loginAnswers, loginHeaders } from "./answer-fields.ts";
import { returnToField } from "./body-fields.ts";
import { type AuthDeps, endReplacedSession, loginAnswer } from "./login-answer.ts";
import { browserTokenOf, keepBrowserToken } from "./oauth-cookie.ts";
import { oauthEnd, type TokenDelivery } from "./oauth-redirect.ts";

/** 5 s for the provider, and the rest for the session. */
const CALLBACK_BUDGET_MS = 8_000;
const MAX_PARAMETER_CHARACTERS = 4_096;
const STATE_CHARACTERS = 43;

/** An unknown name is `provider_not_found`. The router refuses longer ones. */
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
  prompt: z
    .literal("login")
    .optional()
    .meta({
      description:
        "The provider is to ask the user, although it may know them: for a login after " +
        "`reauthentication_required` or a logout.",
    }),
});
/** A parameter that is too long or repeated counts as missing. */
const parameter = z
  .string()
  .max(MAX_PARAMETER_CHARACTERS)
  .catch("")
  .meta({ default: undefined, examples: [""] });
/** Documented as required. A missing one is `oauth_state_invalid`, not `validation_failed`. */
const state = parameter.meta({
  minLength: STATE_CHARACTERS,
  maxLength: STATE_CHARACTERS,
  examples: ["cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E"],
});
/** Providers may add parameters. `error_description` is not read, so that it cannot be reflected. */
const Answer = z
  .object({ code: parameter, state, iss: parameter, error: parameter })
  .meta({ required: ["state"] });
/** Longer than any code. Another text is `oauth_code_invalid`. */
const ExchangeBody = z.strictObject({
  code: textField(1, 200, { examples: ["cLKkYhN0m0bLw9vJk0cJX2mR8c5ZyS1tqv7bq3Q9d5E"] }),
  codeVerifier: textField(1, 200, {
    description: "Of the `codeChallenge`.",
    examples: ["dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"],
  }),
});

const providersAnswer = z.strictObject({
  providers: z.array(
    z
      .strictObject({ name: textLike("google"), displayName: textLike("Google") })
      .meta({ id: "IdentityProvider" }),
  ),
});

/** identity-service sends these to `returnTo`. */
export const REDIRECTED_CODES = [
  "oauth_failed",
  "oauth_denied",
  "link_required",
  "already_linked",
  "email_not_verified",
  "busy",
  "service_unavailable",
] as const satisfies readonly ErrorCode[];

export interface OAuthDeps extends AuthDeps {
  tokenDelivery: TokenDelivery;
  brand: PageBrand;
}

/** Other paths that fit `/auth/:provider` have precedence. */
export function registerOAuthRoutes(app: GatewayApp, deps: OAuthDeps, paths: KnownPaths): void {
  const { identity } = deps;
  const failurePage = failurePageOf(deps.brand);
  const route = routeIn(app, "Identity providers");

  route("listProviders", "GET", "/auth/providers", {
    summary: "List the identity providers",
    policy: { auth: "public", limitClass: "provider" },
    answers: answersWith("Those that one can log in at; none, if none is configured.", providersAnswer),
    handler: async (request) => {
      const { providers } = await identity.listProviders({}, request.state.call);
      const named = providers.map(({ name, displayName }) => ({ name, displayName }));
      return success({ providers: named }, "The identity providers.");
    },
  });

  route("beginOAuthLogin", "GET", "/auth/:provider", {
    summary: "Page: log in at an identity provider",
    description:
      "For browsers: navigate there, do not fetch it. With `codeChallenge` the client gets a one-time code, which " +
      "`POST /auth/oauth/exchange` turns into tokens; without, the tokens themselves. No `HEAD`: it begins something.",
    policy: { auth: "public", limitClass: "provider" },
    schema: { params: ProviderParams, querystring: BeginQuery },
    answers: {
      302: {
        description: "To the identity provider.",
        headers: {
          Location: "The provider's page.",
          "Set-Cookie":
            "`gatehouse_oauth` (over HTTPS `__Host-gatehouse_oauth`): the login is this browser's.",
        },
      },
    },
    codes: ["provider_not_found", "not_found"],
    failurePage,
    options: { exposeHeadRoute: false, onRequest: notFoundOf(paths) },
    handler: async (request, reply) => {
      const { returnTo = "", codeChallenge = "", prompt } = request.query;
      const from = { clientIp: clientIp(request), deviceToken: deviceTokenOf(request) };
      const asked = { ...request.params, returnTo, codeChallenge, ...from, ...browserTokenOf(request) };
      const isAfresh = prompt === "login";
      const departure = await identity.beginOAuthLogin(
        { ...asked, isAfresh, linkTo: undefined },
        request.state.call,
      );
      keepBrowserToken(reply, departure);
      return reply.code(HTTP_FOUND).header("location", departure.authorizationUrl).send();
    },
  });

  route("completeOAuthLogin", "GET", "/auth/:provider/callback", {
    summary: "Page: back from an identity provider",
    description:
      "For the browser that `GET /auth/{provider}` sent away, with its cookie. The tokens come in the fragment of " +
      "`returnTo`, unless the operator has them put into the query. A failure that the client can be shown goes to " +
      "`returnTo` as well, as `#error=` with its code: " +
      `${REDIRECTED_CODES.map((code) => `\`${code}\``).join(", ")}. No \`HEAD\`: it has an effect.`,
    // A GET that creates users and sessions.
    policy: { auth: "public", limitClass: "provider", action: "auth.oauth_login", isAudited: true },
    schema: { params: ProviderParams, querystring: Answer },
    cookies: {
      gatehouse_oauth: "From `GET /auth/{provider}`; over HTTPS it is `__Host-gatehouse_oauth`.",
    },
    answers: {
      302: {
        description: "To `returnTo`.",
        headers: {
          Location:
            "`returnTo` with `accessToken`, `refreshToken`, `tokenType` and `expiresIn`; with `?code=` if it began " +
            "with a `codeChallenge`; with `requireMfa` and `tempToken`, for `POST /auth/mfa/verify`; with " +
            "`requireMfaEnrollment` and `tempToken`, for `POST /auth/mfa/setup`; with `#linked=` " +
            "and the provider; or with `#error=`.",
          ...loginHeaders,
        },
      },
    },
    codes: ["oauth_state_invalid", "provider_not_found", "not_found"],
    failurePage,
    options: { exposeHeadRoute: false, preValidation: refuseStrangers },
    identify: async (request, reply) => {
      const { location, ...identified } = await complete(deps, request, {
        ...request.params,
        ...request.query,
      });
      reply.code(HTTP_FOUND).header("location", location);
      return { body: undefined, ...identified };
    },
  });

  app.register(async (scope: GatewayApp) => {
    addFormParser(scope);
    // For `response_mode=form_post` (Apple): a cross-site POST has no `Lax` cookie, but the GET after a
    // redirect has.
    routeIn(scope, "Identity providers")("receiveOAuthForm", "POST", "/auth/:provider/callback", {
      summary: "Form: back from an identity provider",
      description: "For providers that answer by a form (`response_mode=form_post`).",
      policy: { auth: "public", limitClass: "provider", action: "auth.oauth_form_post" },
      schema: { params: ProviderParams, body: Answer },
      bodyTypes: [FORM_TYPE],
      answers: {
        303: {
          description: "To the same path, which takes it from there.",
          headers: { Location: "The same path with the form's members as a query." },
        },
      },
      codes: ["not_found"],
      failurePage,
      handler: async (request, reply) => {
        const given = Object.entries(request.body).filter(([, value]) => value !== "");
        const location = `${pathOf(request)}?${new URLSearchParams(given)}`;
        return reply.code(HTTP_SEE_OTHER).header("location", location).send();
      },
    });
  });

  route("exchangeOAuthCode", "POST", "/auth/oauth/exchange", {
    summary: "Turn the one-time code of a login into tokens",
    description: "Any try uses the code up.",
    policy: {
      auth: "public",
      limitClass: "provider",
      action: "auth.oauth_exchange",
      cookies: "session",
      issuesTokens: true,
    },
    headers: deviceHeader,
    schema: { body: ExchangeBody },
    answers: answersWith("A session, or what is missing to one.", loginAnswers.afterProvider, loginHeaders),
    codes: ["oauth_code_invalid", "email_not_verified", "role_not_defined"],
    identify: async (request) => {
      const attempt = { ...request.body, ...clientOf(request), deviceToken: deviceTokenOf(request) };
      const { result } = await identity.exchangeOAuthCode(attempt, request.state.call);
      return endReplacedSession(deps, request, loginAnswer(result));
    },
  });
}

const pathOf = ({ raw: { url = "" } }: FastifyRequest): string => url.split("?", 1)[0] ?? "";

/** For a path that has a route of its own, if for another method. */
function notFoundOf(paths: KnownPaths) {
  return async (request: FastifyRequest, reply: FastifyReply) => {
    if (!paths.isLiteral(pathOf(request))) return;
    reply.callNotFound();
    return reply;
  };
}

async function complete(
  { identity, tokenDelivery, verifier }: OAuthDeps,
  request: FastifyRequest,
  answer: z.output<typeof ProviderParams> & z.output<typeof Answer>,
) {
  const from = { ...browserTokenOf(request), ...clientOf(request), deviceToken: deviceTokenOf(request) };
  const language = acceptedLanguage(request);
  const call = withLongBudget(request.state.call);
  const completion = await identity.completeOAuthLogin({ ...answer, ...from, language }, call);
  for (const id of completion.endedSessionIds) verifier.refuseSession(id);
  return oauthEnd(completion, tokenDelivery);
}

/** Refuses a callback without state or cookie before any other work. */
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

/** The callers are browsers. */
const failurePageOf =
  (brand: PageBrand): FailurePage =>
  (error, message) =>
    error.code === "oauth_state_invalid"
      ? messagePage(
          brand,
          "This login is over",
          "It took too long, was used already, or began in another browser. Go back and begin again.",
        )
      : messagePage(brand, "This login did not work", message);
