import { UserAdminServiceClient } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { callUnary } from "../../service-kit/rpc-client.ts";
import type { Command } from "../command.ts";
import { UsageError } from "../usage-error.ts";
import { REASON_OPTION, reasonOf } from "./reason-option.ts";
import { sessionsEnded } from "./set-user-access.ts";

interface Change extends Pick<Command, "name" | "summary" | "details"> {
  /** Follows the user's id. */
  result: string;
  execute: (
    client: UserAdminServiceClient,
    act: { userId: string; reason: string },
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
  execute: (client, act, context) => callUnary(client, client.deleteUser, act, context),
});

export const usersResetMfa = irreversible({
  name: "users reset-mfa",
  summary: "Remove a lost second factor of a user, and end all of the user's sessions",
  details:
    "The user gets a mail. Without a second factor nothing happens. Verify who asks for it. --yes is required.",
  result: "has no second factor",
  execute: (client, act, context) => callUnary(client, client.resetUserMfa, act, context),
});

function irreversible({ result, execute, ...texts }: Change): Command {
  return {
    ...texts,
    positionals: ["id"],
    options: { ...REASON_OPTION, yes: { type: "boolean", description: "confirm: this cannot be undone" } },
    checkWith: "gatehouse users show <id>",
    async run(input, backend) {
      const [userId = ""] = input.positionals;
      if (!input.flags.has("yes")) throw new UsageError("This cannot be undone: add --yes");
      const { endedSessionIds } = await backend.call(
        "identity-service",
        UserAdminServiceClient,
        (client, context) => execute(client, { userId, reason: reasonOf(input) }, context),
      );
      return {
        text: `${userId} ${result}; ${sessionsEnded(endedSessionIds)}`,
        json: { userId, endedSessionIds },
      };
    },
  };
}
