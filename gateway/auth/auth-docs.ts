import { z } from "zod";
import { answersWith, describeRoutes, enveloped, JSON_TYPE } from "../routing/route-docs.ts";
import { loginAnswers, tokenFields, userAnswer } from "./answer-fields.ts";

/** What the password policy refuses. */
export const newPasswordCodes = [
  "password_too_short",
  "password_too_common",
  "password_contains_email",
] as const;

/** What a login that ends with a session may set. */
export const loginHeaders = {
  "Set-Cookie": "`gatehouse_device`: the device is known at the next login. It opens nothing.",
  "Gatehouse-Device": "The same in place of the cookie, for a client that sent this header.",
};

/** Optional header of every step of a login, and of requests for mails. */
export const deviceHeader = {
  "Gatehouse-Device":
    "For clients without cookies: the value that the last login answered in this header, or `new`. A known device gets " +
    "in while strangers guess at the account, or use up what strangers share.",
};

export const authDocs = {
  ...describeRoutes("Accounts", {
    register: {
      summary: "Register",
      description:
        "A mail with a link that proves the address is on its way. A gateway that does not tell whether an address " +
        "has an account answers 201 for one that has, and mails its owner.",
      answers: {
        201: {
          description: "The new account.",
          content: { [JSON_TYPE]: enveloped(z.strictObject({ user: userAnswer })) },
        },
      },
      codes: ["email_already_registered", ...newPasswordCodes, "busy"],
    },
    getAccount: {
      summary: "Who am I?",
      answers: answersWith(
        "The caller's account; `recoveryCodesLeft` only with a second factor.",
        z.strictObject({
          user: userAnswer,
          recoveryCodesLeft: z
            .int()
            .optional()
            .meta({ examples: [10] }),
        }),
      ),
    },
  }),
  ...describeRoutes("Logins", {
    logIn: {
      summary: "Log in",
      description:
        "An unknown address, a wrong password, a disabled and a locked account get the same answer. A right password " +
        "may need a second step: `requireMfa` or `requirePasswordChange`.",
      answers: {
        200: {
          description: "A session, or what is missing to one.",
          content: { [JSON_TYPE]: enveloped(loginAnswers.afterPassword) },
          headers: loginHeaders,
        },
      },
      headers: deviceHeader,
      codes: ["invalid_credentials", "email_not_verified", "busy"],
    },
    refresh: {
      summary: "Refresh the tokens",
      description:
        "Gives a new pair; the refresh token that was sent is used up. If its answer was lost, the same call gives " +
        "the same successor; a token that was used before its successor was ends the session.",
      answers: answersWith("A new pair of tokens.", z.strictObject(tokenFields).meta({ id: "Tokens" })),
      codes: ["refresh_token_invalid", "refresh_token_reused"],
    },
  }),
};
