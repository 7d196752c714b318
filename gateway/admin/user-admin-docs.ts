import { z } from "zod";
import { managedUserAnswer, nextCursorField } from "../auth/answer-fields.ts";
import { answersWith, describeRoutes } from "../routing/route-docs.ts";

const managed = z.strictObject({ user: managedUserAnswer });

export const userAdminDocs = describeRoutes("Administration", {
  listUsers: {
    summary: "List users",
    answers: answersWith(
      "A page of users, newest first.",
      z.strictObject({ users: z.array(managedUserAnswer), nextCursor: nextCursorField }),
    ),
    codes: ["audit_unavailable"],
  },
  getUser: {
    summary: "Show a user",
    answers: answersWith("The user.", managed),
    codes: ["not_found", "audit_unavailable"],
  },
  updateUser: {
    summary: "Change what a user may do",
    description:
      "What is absent stays. A new role, a disabled account and a password that must be changed end the user's " +
      "sessions.",
    answers: answersWith("The user as it is now.", managed),
    codes: ["not_found", "last_admin"],
  },
  deleteUser: {
    summary: "Delete a user",
    answers: answersWith("The account is gone."),
    codes: ["not_found", "last_admin"],
  },
  endUserSessions: {
    summary: "End a user's sessions",
    answers: answersWith(
      "They have ended.",
      z.strictObject({ ended: z.int().meta({ description: "How many.", examples: [2] }) }),
    ),
    codes: ["not_found"],
  },
  resetUserMfa: {
    summary: "Take a user's second factor away",
    description: "The user's sessions end.",
    answers: answersWith("The user has none any more."),
    codes: ["not_found"],
  },
});
