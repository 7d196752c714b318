import { UserAdminServiceClient } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { sessionsEnded } from "./set-user-access.ts";

export const usersDelete: Command = {
  name: "users delete",
  summary: "Erase a user and end every session of theirs",
  details:
    "The audit log keeps the id, and the client address and user agent of each of its calls: they are part of the chain. It forgets every e-mail address of the account. --yes is required.",
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
      (client, context) => callUnary(client, client.deleteUser, { userId }, context),
    );
    return {
      text: `${userId} is gone; ${sessionsEnded(endedSessionIds)}`,
      json: { userId, endedSessionIds },
    };
  },
};
