import { z } from "zod";
import { answersWith, describeRoutes, enveloped, JSON_TYPE } from "../routing/route-docs.ts";
import { timeField } from "./answer-fields.ts";

const identity = z
  .strictObject({
    provider: z.string().meta({ examples: ["google"] }),
    email: z
      .string()
      .optional()
      .meta({ description: "As the provider told it.", examples: ["ada@example.com"] }),
    linkedAt: timeField,
  })
  .meta({
    id: "LinkedIdentity",
    description: "An account at an identity provider that opens the user's own.",
  });

const departure = z.strictObject({
  url: z.string().meta({ examples: ["https://accounts.example.com/authorize?state=x"] }),
});

/** What `proveOwner` of identity-service refuses. */
const ownerCodes = ["reauthentication_required", "invalid_credentials", "busy"] as const;

export const identityLinkDocs = describeRoutes("Identity providers", {
  listIdentities: {
    summary: "List the accounts at identity providers that one can log in with",
    answers: answersWith("One of each provider at most.", z.strictObject({ identities: z.array(identity) })),
  },
  linkIdentity: {
    summary: "Link an account at an identity provider",
    description:
      "Needs the password; of an account without one, a login in the last ten minutes. Send the browser to `url`: it " +
      "comes back to `returnTo` with `#linked=` and the provider, or with `#error=` and a code. 403 `email_not_verified` " +
      "while the account's credentials are not proven: see `POST /auth/verify-email`.",
    answers: {
      200: {
        description: "Where to send the browser.",
        content: { [JSON_TYPE]: enveloped(departure) },
        headers: {
          "Set-Cookie":
            "`gatehouse_oauth` (over HTTPS `__Host-gatehouse_oauth`): only this browser can finish it.",
        },
      },
    },
    codes: ["provider_not_found", "not_found", "already_linked", "email_not_verified", ...ownerCodes],
  },
  unlinkIdentity: {
    summary: "Take an account at an identity provider away",
    description:
      "Needs the password; of an account without one, a login in the last ten minutes. Every other session ends.",
    answers: answersWith("It opens the account no more."),
    codes: ["not_found", "last_credential", ...ownerCodes],
  },
});
