import { callUnary } from "#kit/rpc/rpc-client.ts";
import { UserAdminServiceClient } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";
import { REASON_OPTION, reasonOf } from "../reason-option.ts";
import { clientsText, DISABLE_CLIENTS, LEFT_CLIENTS, leftClients, sessionsEnded } from "./set-user-access.ts";

const CONFIRMATION = { type: "boolean", description: "confirm: this cannot be undone" } as const;
const CHECK_WITH = "gatehouse users show <id>";

export const usersDelete: Command = {
  name: "users delete",
  summary: "Erase a user and end all of the user's sessions",
  details:
    "The audit log forgets every e-mail address of the account. It keeps the id, and the client address and user agent\n" +
    `of each call, because they are part of the hash chain. --yes is required.\n${LEFT_CLIENTS}`,
  positionals: ["id"],
  options: { ...REASON_OPTION, yes: CONFIRMATION, "disable-clients": DISABLE_CLIENTS },
  checkWith: CHECK_WITH,
  async run(input, backend) {
    const [userId = ""] = input.positionals;
    assertConfirmed(input.flags);
    const disableClients = input.flags.has("disable-clients");
    const request = { userId, disableClients, reason: reasonOf(input) };
    const answer = await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
      callUnary(client, client.deleteUser, request, context),
    );
    const { endedSessionIds } = answer;
    const clients = leftClients(answer.clients);
    return {
      text: `${userId} is deleted; ${sessionsEnded(endedSessionIds)}${clientsText(clients)}`,
      json: { userId, endedSessionIds, clients },
    };
  },
};

export const usersResetMfa: Command = {
  name: "users reset-mfa",
  summary: "Remove a lost second factor of a user, and end all of the user's sessions",
  details:
    "The user gets a mail. Without a second factor nothing happens. Verify who asks for it. --yes is required.",
  positionals: ["id"],
  options: { ...REASON_OPTION, yes: CONFIRMATION },
  checkWith: CHECK_WITH,
  async run(input, backend) {
    const [userId = ""] = input.positionals;
    assertConfirmed(input.flags);
    const request = { userId, reason: reasonOf(input) };
    const { endedSessionIds } = await backend.call(
      "identity-service",
      UserAdminServiceClient,
      (client, context) => callUnary(client, client.resetUserMfa, request, context),
    );
    return {
      text: `${userId} has no second factor; ${sessionsEnded(endedSessionIds)}`,
      json: { userId, endedSessionIds },
    };
  },
};

export const usersRemovePasskey: Command = {
  name: "users remove-passkey",
  summary: "Remove a lost passkey of a user, and end all of the user's sessions",
  details: "The user gets a mail. The ids are in: gatehouse users show <id>. --yes is required.",
  positionals: ["id", "passkey"],
  options: { ...REASON_OPTION, yes: CONFIRMATION },
  checkWith: CHECK_WITH,
  async run(input, backend) {
    const [userId = "", passkeyId = ""] = input.positionals;
    assertConfirmed(input.flags);
    const request = { userId, passkeyId, reason: reasonOf(input) };
    const { endedSessionIds } = await backend.call(
      "identity-service",
      UserAdminServiceClient,
      (client, context) => callUnary(client, client.removeUserPasskey, request, context),
    );
    return {
      text: `${userId} no longer has that passkey; ${sessionsEnded(endedSessionIds)}`,
      json: { userId, passkeyId, endedSessionIds },
    };
  },
};

function assertConfirmed(flags: ReadonlySet<string>): void {
  if (!flags.has("yes")) throw new UsageError("This cannot be undone: add --yes");
}
