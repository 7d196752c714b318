import { callUnary } from "#kit/rpc/rpc-client.ts";
import { UserAdminServiceClient, UserLink } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../../command.ts";
import { UsageError } from "../../usage-error.ts";
import { REASON_OPTION, reasonOf } from "../reason-option.ts";
import { roleNamed, userView } from "./user-view.ts";

export const usersInvite: Command = {
  name: "users invite",
  summary: "Invite a person: make an account, and mail a link to set the password",
  details:
    "The link works for 7 days, and nobody else sees it. To mail another one: gatehouse users send-link <id> confirmation",
  positionals: ["email"],
  options: {
    "first-name": { type: "string", value: "name", required: true, description: "of the person" },
    "last-name": { type: "string", value: "name", description: "of the person" },
    role: { type: "string", value: "role", description: "as in access.yaml; default: that of new accounts" },
    ...REASON_OPTION,
  },
  checkWith: "gatehouse users list --query <email>",
  async run(input, backend) {
    const [email = ""] = input.positionals;
    const role = input.values.get("role");
    const request = {
      email,
      firstName: input.values.get("first-name") ?? "",
      lastName: input.values.get("last-name") ?? "",
      role: role === undefined ? "" : roleNamed("--role", role),
      reason: reasonOf(input),
    };
    const answer = await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
      callUnary(client, client.inviteUser, request, context),
    );
    const user = userView(answer.user);
    return { text: `${user.id} is invited; the mail waits to be sent`, json: { user } };
  },
};

const LINKS = { confirmation: UserLink.CONFIRMATION, reset: UserLink.RESET } as const;

export const usersSendLink: Command = {
  name: "users send-link",
  summary: "Mail a user a link: to confirm the address, or to set a new password",
  details:
    "<link> is confirmation or reset. Of a user who was invited and waits, confirmation is the invitation.",
  positionals: ["id", "link"],
  options: REASON_OPTION,
  checkWith: "gatehouse users show <id>",
  async run(input, backend) {
    const [userId = "", word = ""] = input.positionals;
    if (word !== "confirmation" && word !== "reset")
      throw new UsageError("<link> must be confirmation or reset");
    const request = { userId, link: LINKS[word], reason: reasonOf(input) };
    await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
      callUnary(client, client.mailUser, request, context),
    );
    return { text: `the mail to ${userId} waits to be sent`, json: { userId, link: word } };
  },
};
