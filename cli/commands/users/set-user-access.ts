import { callUnary } from "#kit/rpc/rpc-client.ts";
import {
  type OwnedClients,
  type SetUserAccessRequest,
  UserAdminServiceClient,
  UserStatus,
} from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import type { Backend } from "../../backend.ts";
import { table } from "../table.ts";
import { type UserView, userView } from "./user-view.ts";

export interface ChangedUser {
  user: UserView;
  endedSessionIds: string[];
  clients: LeftClient[];
}

export interface LeftClient {
  id: string;
  name: string;
  status: "active" | "disabled";
}

export const LEFT_CLIENTS =
  "The user's clients (programs) are listed. They go on working, unless --disable-clients is given.";
export const DISABLE_CLIENTS = { type: "boolean", description: "disable the user's clients too" } as const;

export async function setUserAccess(
  backend: Backend,
  userId: string,
  change: Partial<Omit<SetUserAccessRequest, "userId">>,
): Promise<ChangedUser> {
  const stays = {
    role: "",
    status: UserStatus.UNSPECIFIED,
    mustChangePassword: undefined,
    firstName: undefined,
    lastName: undefined,
    reason: "",
    disableClients: false,
  };
  const request = { ...stays, ...change, userId };
  const answer = await backend.call("identity-service", UserAdminServiceClient, (client, context) =>
    callUnary(client, client.setUserAccess, request, context),
  );
  const { endedSessionIds } = answer;
  return { user: userView(answer.user), endedSessionIds, clients: leftClients(answer.clients) };
}

export function leftClients(message: OwnedClients | undefined): LeftClient[] {
  return (message?.clients ?? []).map(({ id, name, active }) => ({
    id,
    name,
    status: active ? "active" : "disabled",
  }));
}

/** Empty, or lines below an answer. */
export function clientsText(clients: readonly LeftClient[]): string {
  if (clients.length === 0) return "";
  const rows = clients.map(({ id, name, status }) => [id, name, status]);
  const hint = clients.some(({ status }) => status === "active")
    ? "\nThey go on working. Give them to another owner: gatehouse clients change <id> --owner <user>"
    : "";
  return `\n\n${table(["CLIENT OF THIS USER", "NAME", "STATUS"], rows)}${hint}`;
}

export function sessionsEnded({ length }: readonly string[]): string {
  return length === 1 ? "1 session has ended" : `${length} sessions have ended`;
}
