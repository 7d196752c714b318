import { callUnary } from "#kit/rpc/rpc-client.ts";
import { UserAdminServiceClient } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";
import { REASON_OPTION, reasonOf } from "../reason-option.ts";
import { FROM_DETAILS, FROM_OPTIONS, forEachUser } from "./each-user.ts";
import { sessionsEnded } from "./set-user-access.ts";

export const usersEndSessions: Command = {
  name: "users end-sessions",
  summary: "End all sessions of a user, and unfinished logins; or one session",
  details: FROM_DETAILS,
  positionals: [],
  optionalPositionals: ["id"],
  options: {
    ...FROM_OPTIONS,
    session: { type: "string", value: "id", description: "of the only one to end" },
    ...REASON_OPTION,
  },
  checkWith: "gatehouse sessions list <id>",
  run(input, backend, terminal) {
    const sessionId = input.values.get("session") ?? "";
    if (sessionId !== "" && input.values.has("from")) throw new UsageError("--session is of one <id>");
    const reason = reasonOf(input);
    return forEachUser(input, terminal, async (userId) => {
      const { endedSessionIds } = await backend.call(
        "identity-service",
        UserAdminServiceClient,
        (client, context) =>
          callUnary(client, client.endUserSessions, { userId, sessionId, reason }, context),
      );
      return {
        text: `${userId} is logged out ${sessionId === "" ? "everywhere" : "there"}; ${sessionsEnded(endedSessionIds)}`,
        json: { userId, endedSessionIds },
      };
    });
  },
};
