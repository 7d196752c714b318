import { z } from "zod";
import { answersWith, describeRoutes, enveloped, JSON_TYPE } from "../routing/route-docs.ts";
import { loginAnswers } from "./answer-fields.ts";
import { deviceHeader, loginHeaders } from "./auth-docs.ts";

const recoveryCodes = z.strictObject({
  recoveryCodes: z
    .array(z.string().meta({ examples: ["4kzq-8m2p-xw7c"] }))
    .meta({ description: "Ten, each good once, and shown only here." }),
});

export const mfaDocs = describeRoutes("Second factor", {
  completeMfaLogin: {
    summary: "Log in: the code",
    description: "For a login that answered `requireMfa`. The code is a TOTP code or a recovery code.",
    answers: {
      200: {
        description: "A session, or a password that has to be changed first.",
        content: { [JSON_TYPE]: enveloped(loginAnswers.afterCode) },
        headers: loginHeaders,
      },
    },
    headers: deviceHeader,
    codes: ["mfa_code_invalid", "mfa_token_invalid"],
  },
  setUpMfa: {
    summary: "Begin to set up a second factor",
    description:
      "403 `email_not_verified` while the account's credentials are not proven: see `POST /auth/verify-email`.",
    answers: answersWith(
      "For an authenticator app. Nothing is on yet.",
      z.strictObject({
        secret: z.string().meta({ description: "Base32.", examples: ["JBSWY3DPEHPK3PXP"] }),
        otpauthUrl: z.string().meta({ examples: ["otpauth://totp/Gatehouse:ada?secret=JBSWY3DPEHPK3PXP"] }),
        qrCode: z
          .string()
          .meta({ description: "An SVG as a data URL.", examples: ["data:image/svg+xml;base64,AA=="] }),
      }),
    ),
    codes: ["invalid_credentials", "email_not_verified", "mfa_already_enabled", "busy"],
  },
  enableMfa: {
    summary: "Turn the second factor on",
    description: "Every other session ends.",
    answers: answersWith("It is on.", recoveryCodes),
    codes: ["mfa_code_invalid", "email_not_verified", "mfa_already_enabled"],
  },
  disableMfa: {
    summary: "Turn the second factor off",
    description: "Every other session ends.",
    answers: answersWith("It is off."),
    codes: ["invalid_credentials", "mfa_code_invalid", "busy"],
  },
  renewRecoveryCodes: {
    summary: "Get new recovery codes",
    answers: answersWith("The old ones are not good any more.", recoveryCodes),
    codes: ["mfa_code_invalid"],
  },
});
