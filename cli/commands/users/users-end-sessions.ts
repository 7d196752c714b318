import { callUnary } from "#kit/rpc/rpc-client.ts";
import { UserAdminServiceClient } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../../command.ts";
import { REASON_OPTION, reasonOf } from "../reason-option.ts";
import { sessionsEnded } from "./set-user-access.ts";

export const usersEndSessions: Command = {
  name: "users end-sessions",
  summary: "End all sessions of a user, and unfinished logins; or one session",
  positionals: ["id"],
  options: {
    session: { type: "string", value: "id", description: "of the only one to end" },
    ...REASON_OPTION,
  },
  checkWith: "gatehouse sessions list <id>",
  async run(input, backend) {
    const [userId = ""] = input.positionals;
    const sessionId = input.values.get("session") ?? "";
    const { endedSessionIds } = await backend.call(
      "identity-service",
      UserAdminServiceClient,
      (client, context) =>
        callUnary(client, client.endUserSessions, { userId, sessionId, reason: reasonOf(input) }, context),
    );
    return {
      text: `${userId} is logged out ${sessionId === "" ? "everywhere" : "there"}; ${sessionsEnded(endedSessionIds)}`,
      json: { userId, endedSessionIds },
    };
  },
};
