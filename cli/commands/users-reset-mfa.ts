import { UserAdminServiceClient } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { sessionsEnded } from "./set-user-access.ts";

export const usersResetMfa: Command = {
  name: "users reset-mfa",
  summary: "Remove the second factor of a user who has lost it, and end every session of theirs",
  details:
    "The user gets a mail. Without a second factor nothing happens. Be sure of who asks: --yes is required.",
  positionals: ["id"],
  options: {
    yes: { type: "boolean", description: "it is meant: there is no way back" },
  },
  checkWith: "gatehouse users show <id>",
  async run({ positionals, flags }, backend) {
    const [userId = ""] = positionals;
    if (!flags.has("yes")) throw new UsageError("There is no way back: say --yes");
    const { endedSessionIds } = await backend.call(
      "identity-service",
      UserAdminServiceClient,
      (client, context) => callUnary(client, client.resetUserMfa, { userId }, context),
    );
    return {
      text: `${userId} has no second factor; ${sessionsEnded(endedSessionIds)}`,
      json: { userId, endedSessionIds },
    };
  },
};
