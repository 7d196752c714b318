import {
  type ManagedUser as ManagedUserMessage,
  UserStatus as StatusMessage,
  UserAdminServiceClient,
} from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import { Role as RoleMessage } from "../../proto/gen/gatehouse/token/v1/principal.ts";
import type { CallContext } from "../../service-kit/call-context.ts";
import { callUnary, createRpcClient } from "../../service-kit/rpc-client.ts";
import type { ProcessCertificate } from "../../service-kit/rpc-tls.ts";
import type { Role } from "../../token-client/principal.ts";
import { toUser, type User } from "../auth/identity-client.ts";

export type UserStatus = "active" | "disabled";

/** A user as administrators see one. */
export interface ManagedUser extends User {
  status: UserStatus;
  /** The next login gives no session before the password was changed. */
  mustChangePassword: boolean;
}

export interface UserQuery {
  query?: string | undefined;
  role?: Role | undefined;
  status?: UserStatus | undefined;
  cursor?: string | undefined;
  limit: number;
}

/** The gateway's view of the administration of users. Every call throws what the service says, as a DomainError. */
export interface UserAdminClient {
  /** Newest first; `nextCursor` is null on the last page. */
  list(
    query: UserQuery,
    context: CallContext,
  ): Promise<{ users: readonly ManagedUser[]; nextCursor: string | null }>;
  get(userId: string, context: CallContext): Promise<ManagedUser>;
  /** What is undefined stays. Also gives the ids of the sessions that ended. */
  setAccess(
    access: {
      userId: string;
      role?: Role | undefined;
      status?: UserStatus | undefined;
      mustChangePassword?: boolean | undefined;
    },
    context: CallContext,
  ): Promise<{ user: ManagedUser; endedSessionIds: readonly string[] }>;
  /** @returns the ids of the sessions that ended. */
  resetMfa(userId: string, context: CallContext): Promise<readonly string[]>;
  /** @returns the ids of the sessions that ended. */
  endSessions(userId: string, context: CallContext): Promise<readonly string[]>;
  /** @returns the ids of the sessions that ended. */
  delete(userId: string, context: CallContext): Promise<readonly string[]>;
  close(): void;
}

/** @param address `host:port` of identity-service. */
export function createUserAdminClient(address: string, certificate: ProcessCertificate): UserAdminClient {
  const client = createRpcClient(UserAdminServiceClient, {
    address,
    service: "identity-service",
    certificate,
    idempotentMethods: [
      "gatehouse.identity.v1.UserAdminService/ListUsers",
      "gatehouse.identity.v1.UserAdminService/GetManagedUser",
    ],
  });
  return {
    async list({ query = "", role, status, cursor = "", limit }, context) {
      const request = { query, role: roleMessage(role), status: statusMessage(status), cursor, limit };
      const { users, nextCursor } = await callUnary(client, client.listUsers, request, context);
      return { users: users.map(toManagedUser), nextCursor: nextCursor || null };
    },
    async get(userId, context) {
      const { user } = await callUnary(client, client.getManagedUser, { userId }, context);
      return toManagedUser(user);
    },
    async setAccess({ userId, role, status, mustChangePassword }, context) {
      const request = {
        userId,
        role: roleMessage(role),
        status: statusMessage(status),
        mustChangePassword,
      };
      const { user, endedSessionIds } = await callUnary(client, client.setUserAccess, request, context);
      const managed = toManagedUser(user);
      if ((mustChangePassword ?? managed.mustChangePassword) !== managed.mustChangePassword) {
        throw new Error("identity-service overlooked that the password must be changed");
      }
      return { user: managed, endedSessionIds };
    },
    async resetMfa(userId, context) {
      const { endedSessionIds } = await callUnary(client, client.resetUserMfa, { userId }, context);
      return endedSessionIds;
    },
    async endSessions(userId, context) {
      const { endedSessionIds } = await callUnary(client, client.endUserSessions, { userId }, context);
      return endedSessionIds;
    },
    async delete(userId, context) {
      const { endedSessionIds } = await callUnary(client, client.deleteUser, { userId }, context);
      return endedSessionIds;
    },
    close: () => client.close(),
  };
}

const STATUSES: Record<UserStatus, StatusMessage> = {
  active: StatusMessage.ACTIVE,
  disabled: StatusMessage.DISABLED,
};

function roleMessage(role: Role | undefined): RoleMessage {
  return role === undefined ? RoleMessage.UNSPECIFIED : RoleMessage[role];
}

function statusMessage(status: UserStatus | undefined): StatusMessage {
  return status === undefined ? StatusMessage.UNSPECIFIED : STATUSES[status];
}

function toManagedUser(message: ManagedUserMessage | undefined): ManagedUser {
  const status = message?.status === StatusMessage.ACTIVE ? "active" : "disabled";
  if (message?.status !== STATUSES[status])
    throw new Error("identity-service sent a status that is not known");
  // Absent from a version that asks nobody to.
  const { mustChangePassword = false } = message;
  return { ...toUser(message.user), status, mustChangePassword };
}
