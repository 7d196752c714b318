import { callUnary } from "#kit/rpc/rpc-client.ts";
import { UserAdminServiceClient } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../../command.ts";
import { REASON_OPTION, reasonOf } from "../reason-option.ts";
import { sessionsEnded } from "./set-user-access.ts";

export const usersEndSessions: Command = {
  name: "users end-sessions",
  summary: "End all sessions of a user, and unfinished logins",
  positionals: ["id"],
  options: REASON_OPTION,
  checkWith: "gatehouse users show <id>",
  async run(input, backend) {
    const [userId = ""] = input.positionals;
    const { endedSessionIds } = await backend.call(
      "identity-service",
      UserAdminServiceClient,
      (client, context) =>
        callUnary(client, client.endUserSessions, { userId, reason: reasonOf(input) }, context),
    );
    return {
      text: `${userId} is logged out everywhere; ${sessionsEnded(endedSessionIds)}`,
      json: { userId, endedSessionIds },
    };
  },
};
