import { UserAdminServiceClient } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Command } from "../command.ts";
import { sessionsEnded } from "./set-user-access.ts";

export const usersEndSessions: Command = {
  name: "users end-sessions",
  summary: "End all sessions of a user, and unfinished logins",
  positionals: ["id"],
  options: {},
  checkWith: "gatehouse users show <id>",
  async run({ positionals }, backend) {
    const [userId = ""] = positionals;
    const { endedSessionIds } = await backend.call(
      "identity-service",
      UserAdminServiceClient,
      (client, context) => callUnary(client, client.endUserSessions, { userId }, context),
    );
    return {
      text: `${userId} is logged out everywhere; ${sessionsEnded(endedSessionIds)}`,
      json: { userId, endedSessionIds },
    };
  },
};
