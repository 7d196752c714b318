import { UserAdminServiceClient } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Command } from "../command.ts";
import { userView } from "./user-view.ts";

export const usersShow: Command = {
  name: "users show",
  summary: "Show one user",
  positionals: ["id"],
  options: {},
  async run({ positionals }, backend) {
    const [userId = ""] = positionals;
    const answer = await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
      callUnary(client, client.getManagedUser, { userId }, context),
    );
    const user = userView(answer.user);
    const rows = Object.entries(user).map(([name, value]) => `${name.padEnd(18)}  ${value ?? "-"}`);
    return { text: rows.join("\n"), json: { user } };
  },
};
