import { callUnary } from "#kit/rpc/rpc-client.ts";
import { ClientAdminServiceClient } from "#proto/gatehouse/identity/v1/client_service.ts";
import {
  UserAdminServiceClient,
  type UserDetails,
  UserMailState,
} from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Command } from "../../command.ts";
import { printable } from "../../printable.ts";
import { table } from "../table.ts";
import { clientView } from "./clients.ts";
import { userView } from "./user-view.ts";

const MAX_CLIENTS = 100;
const MAIL_STATES = new Map<UserMailState, string>([
  [UserMailState.WAITING, "waiting"],
  [UserMailState.SENT, "sent"],
  [UserMailState.GIVEN_UP, "given up"],
  [UserMailState.WITHHELD, "withheld"],
]);

export const usersShow: Command = {
  name: "users show",
  summary: "Show one user, with factors, links, mails and clients",
  positionals: ["id"],
  options: {},
  async run({ positionals: [userId = ""] }, backend) {
    const answer = await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
      callUnary(client, client.getManagedUser, { userId }, context),
    );
    const owned = await backend.call("identity-service", ClientAdminServiceClient, (client, context) =>
      callUnary(client, client.listClients, { ownedBy: userId, cursor: "", limit: MAX_CLIENTS }, context),
    );
    const user = userView(answer.user);
    const details = answer.details === undefined ? null : detailsView(answer.details);
    const clients = owned.clients.map((client) => clientView(client));
    const facts = { ...user, ...(details && factsOf(details)) };
    const rows = Object.entries(facts).map(
      ([name, value]) => `${name.padEnd(18)}  ${printable(String(value ?? "-"))}`,
    );
    return {
      text: [
        rows.join("\n"),
        ...list(["PASSKEY", "NAME", "CREATED", "LAST USED"], details?.passkeys ?? []),
        ...list(["PROVIDER", "LINKED"], details?.providers ?? []),
        ...list(["MAIL", "ASKED FOR", "STATE", "ENDED"], details?.mails ?? []),
        ...list(
          ["CLIENT", "NAME", "STATUS"],
          clients.map(({ id, name, status }) => ({ id, name, status })),
        ),
      ].join("\n\n"),
      json: { user, details, clients },
    };
  },
};

/** Nothing for an empty list. */
function list(head: readonly string[], items: readonly object[]): string[] {
  const rows = items.map((item) => Object.values(item).map((value) => String(value ?? "")));
  return rows.length === 0 ? [] : [table(head, rows)];
}

const time = (date: Date | undefined) => date?.toISOString() ?? null;

function detailsView(details: UserDetails) {
  return {
    locked: details.locked,
    lockedUntil: time(details.lockedUntil),
    totpSince: time(details.totpSince),
    recoveryCodesLeft: details.recoveryCodesLeft,
    trustedDevices: details.trustedDevices,
    passkeys: details.passkeys.map(({ id, name, createdAt, lastUsedAt }) => ({
      id,
      name,
      createdAt: time(createdAt),
      lastUsedAt: time(lastUsedAt),
    })),
    providers: details.providers.map(({ provider, linkedAt }) => ({ provider, linkedAt: time(linkedAt) })),
    mails: details.mails.map(({ template, createdAt, state, endedAt }) => ({
      template,
      createdAt: time(createdAt),
      state: MAIL_STATES.get(state) ?? "unknown",
      endedAt: time(endedAt),
    })),
  };
}

function factsOf({ passkeys: _p, providers: _l, mails: _m, ...facts }: ReturnType<typeof detailsView>) {
  return facts;
}
