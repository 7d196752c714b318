import { z } from "zod";
import { answersWith, describeRoutes } from "../routing/route-docs.ts";
import { idField, timeField } from "./answer-fields.ts";

const session = z
  .strictObject({
    id: idField,
    current: z.boolean().meta({ description: "Whether it is the one that asks." }),
    createdAt: timeField,
    lastUsedAt: timeField,
    expiresAt: timeField,
    ip: z.string().meta({ examples: ["192.0.2.7"] }),
    userAgent: z.string().meta({ examples: ["Mozilla/5.0"] }),
    amr: z
      .array(z.string().meta({ examples: ["pwd"] }))
      .meta({ description: "How its user was authenticated (RFC 8176)." }),
  })
  .meta({ id: "Session" });

export const sessionDocs = describeRoutes("Logins", {
  logOut: {
    summary: "Log out",
    description:
      "Ends this session, all others, or all. Their access tokens are refused at once, and what was begun in them (a change " +
      "of address, the linking of a provider) does not happen. With `others` and `all` logins that are under way end too. " +
      "Where the access token has expired, the newest refresh token in the body proves the session.",
    answers: answersWith("Logged out."),
    codes: ["refresh_token_invalid"],
  },
  listSessions: {
    summary: "List one's sessions",
    answers: answersWith("The live sessions, newest first.", z.strictObject({ sessions: z.array(session) })),
  },
  endSession: {
    summary: "End a session",
    answers: answersWith("It has ended."),
    codes: ["not_found"],
  },
});
