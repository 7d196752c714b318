import { z } from "zod";
import { answersWith, describeRoutes, enveloped, JSON_TYPE } from "../routing/route-docs.ts";
import { loginAnswers, userAnswer } from "./answer-fields.ts";
import { deviceHeader, loginHeaders, newPasswordCodes } from "./auth-docs.ts";

const account = z.strictObject({ user: userAnswer });

export const accountDocs = {
  ...describeRoutes("Accounts", {
    resendVerification: {
      summary: "Ask for another mail that proves the address",
      headers: deviceHeader,
      answers: answersWith("Always the same answer, whether there is such an account or not."),
      codes: ["busy"],
    },
    forgotPassword: {
      summary: "Ask for a mail with a link to a new password",
      headers: deviceHeader,
      answers: answersWith("Always the same answer, whether there is such an account or not."),
      codes: ["busy"],
    },
    changePassword: {
      summary: "Change one's password",
      description: "Every other session ends.",
      answers: answersWith("It was changed."),
      codes: ["invalid_credentials", ...newPasswordCodes, "busy"],
    },
    updateAccount: {
      summary: "Change one's names",
      description: "What is absent stays.",
      answers: answersWith("The account as it is now.", account),
      codes: ["not_found"],
    },
    deleteAccount: {
      summary: "Delete one's account",
      description: "Its sessions end.",
      answers: answersWith("It is gone."),
      codes: ["invalid_credentials", "last_admin", "busy"],
    },
    changeEmail: {
      summary: "Ask for another address",
      description: "A mail goes to the new address; it changes when that is confirmed.",
      answers: answersWith("A mail is on its way."),
      codes: ["invalid_credentials", "busy"],
    },
  }),
  ...describeRoutes("Logins", {
    changePasswordAtLogin: {
      summary: "Log in: the new password",
      description: "For a login that answered `requirePasswordChange`.",
      answers: {
        200: {
          description: "A session.",
          content: { [JSON_TYPE]: enveloped(loginAnswers.afterPasswordChange) },
          headers: loginHeaders,
        },
      },
      headers: deviceHeader,
      codes: ["password_change_token_invalid", "password_unchanged", ...newPasswordCodes, "busy"],
    },
  }),
};
