import { UserAdminServiceClient } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Command } from "../command.ts";

export const usersUnlock: Command = {
  name: "users unlock",
  summary: "Forget the failures that slow a user's logins down",
  details: "Those of every network and device, too. Whether the user is disabled stays as it is.",
  positionals: ["id"],
  options: {},
  async run({ positionals }, backend) {
    const [userId = ""] = positionals;
    await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
      callUnary(client, client.unlockUser, { userId }, context),
    );
    return { text: `${userId} is unlocked`, json: { userId } };
  },
};
