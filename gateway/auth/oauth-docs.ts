import { z } from "zod";
import type { ErrorCode } from "../../service-kit/errors.ts";
import { answersWith, describeRoutes, enveloped, FORM_TYPE, JSON_TYPE } from "../routing/route-docs.ts";
import { loginAnswers } from "./answer-fields.ts";
import { deviceHeader, loginHeaders } from "./auth-docs.ts";

const providers = z.strictObject({
  providers: z.array(
    z
      .strictObject({
        name: z.string().meta({ examples: ["google"] }),
        displayName: z.string().meta({ examples: ["Google"] }),
      })
      .meta({ id: "IdentityProvider" }),
  ),
});

/** Failures that go to `returnTo`, and are no status of the callback. identity-service chooses them. */
export const REDIRECTED_CODES = [
  "oauth_failed",
  "oauth_denied",
  "link_required",
  "already_linked",
  "email_not_verified",
  "busy",
  "service_unavailable",
] as const satisfies readonly ErrorCode[];

export const oauthDocs = describeRoutes("Identity providers", {
  listProviders: {
    summary: "List the identity providers",
    answers: answersWith("Those that one can log in at; none, if none is configured.", providers),
  },
  beginOAuthLogin: {
    summary: "Page: log in at an identity provider",
    description:
      "For browsers: navigate there, do not fetch it. With `codeChallenge` the client gets a one-time code, which " +
      "`POST /auth/oauth/exchange` turns into tokens; without, the tokens themselves. No `HEAD`: it begins something.",
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
  },
  completeOAuthLogin: {
    summary: "Page: back from an identity provider",
    description:
      "For the browser that `GET /auth/{provider}` sent away, with its cookie. The tokens come in the fragment of " +
      "`returnTo`, unless the operator has them put into the query. A failure that the client can be told goes to " +
      "`returnTo` as well, as `#error=` with its code: " +
      `${REDIRECTED_CODES.map((code) => `\`${code}\``).join(", ")}. No \`HEAD\`: it has an effect.`,
    answers: {
      302: {
        description: "To `returnTo`.",
        headers: {
          Location:
            "`returnTo` with `accessToken`, `refreshToken`, `tokenType` and `expiresIn`; with `?code=` if it began " +
            "with a `codeChallenge`; with `requireMfa` and `tempToken`, for `POST /auth/mfa/verify`; with `#linked=` " +
            "and the provider; or with `#error=`.",
          ...loginHeaders,
        },
      },
    },
    codes: ["oauth_state_invalid", "provider_not_found", "not_found"],
    cookies: {
      gatehouse_oauth: "From `GET /auth/{provider}`; over HTTPS it is `__Host-gatehouse_oauth`.",
    },
  },
  receiveOAuthForm: {
    summary: "Form: back from an identity provider",
    description: "For providers that answer by a form (`response_mode=form_post`).",
    answers: {
      303: {
        description: "To the same path, which takes it from there.",
        headers: { Location: "The same path with the form's members as a query." },
      },
    },
    codes: ["not_found"],
    bodyTypes: [FORM_TYPE],
  },
  exchangeOAuthCode: {
    summary: "Turn the one-time code of a login into tokens",
    description: "Any try uses the code up.",
    answers: {
      200: {
        description: "A session, or what is missing to one.",
        content: { [JSON_TYPE]: enveloped(loginAnswers.afterProvider) },
        headers: loginHeaders,
      },
    },
    headers: deviceHeader,
    codes: ["oauth_code_invalid", "email_not_verified"],
  },
});
