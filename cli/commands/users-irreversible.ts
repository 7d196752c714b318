import { UserAdminServiceClient } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { sessionsEnded } from "./set-user-access.ts";

interface Change extends Pick<Command, "name" | "summary" | "details"> {
  /** Follows the user's id. */
  result: string;
  execute: (
    client: UserAdminServiceClient,
    userId: string,
    context: CallContext,
  ) => Promise<{ endedSessionIds: string[] }>;
}

export const usersDelete = irreversible({
  name: "users delete",
  summary: "Erase a user and end all of the user's sessions",
  details:
    "The audit log forgets every e-mail address of the account. It keeps the id, and the client address and user agent\n" +
    "of each call, because they are part of the hash chain. --yes is required.",
  result: "is deleted",
  execute: (client, userId, context) => callUnary(client, client.deleteUser, { userId }, context),
});

export const usersResetMfa = irreversible({
  name: "users reset-mfa",
  summary: "Remove a lost second factor of a user, and end all of the user's sessions",
  details:
    "The user gets a mail. Without a second factor nothing happens. Verify who asks for it. --yes is required.",
  result: "has no second factor",
  execute: (client, userId, context) => callUnary(client, client.resetUserMfa, { userId }, context),
});

function irreversible({ result, execute, ...texts }: Change): Command {
  return {
    ...texts,
    positionals: ["id"],
    options: { yes: { type: "boolean", description: "confirm: this cannot be undone" } },
    checkWith: "gatehouse users show <id>",
    async run({ positionals, flags }, backend) {
      const [userId = ""] = positionals;
      if (!flags.has("yes")) throw new UsageError("This cannot be undone: add --yes");
      const { endedSessionIds } = await backend.call(
        "identity-service",
        UserAdminServiceClient,
        (client, context) => execute(client, userId, context),
      );
      return {
        text: `${userId} ${result}; ${sessionsEnded(endedSessionIds)}`,
        json: { userId, endedSessionIds },
      };
    },
  };
}
