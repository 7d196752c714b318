import { filterText, lookedFor, type RecordReading } from "#audit-client/stream/record-reading.ts";
import type { Callers, Implementation } from "#kit/rpc/rpc-server.ts";
import { isRoleName } from "#kit/values/access-names.ts";
import { DomainError } from "#kit/values/errors.ts";
import {
  type ManagedUser,
  type OwnedClients,
  type UserDetails as ProtoDetails,
  type ListUsersRequest as ProtoFilter,
  UserSort as ProtoSort,
  UserStatus as ProtoStatus,
  type UsedApproval as ProtoUsedApproval,
  UserLink as ProtoUserLink,
  TotalIs,
  type UserAdminServiceServer,
  UserMailState,
} from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { type AdminDeps, type MethodPermissions, withPermissions } from "./admin/authorize.ts";
import { countUsers, type KeptFigures } from "./admin/count-users.ts";
import { deleteUser } from "./admin/delete-user.ts";
import { describeUser, type UserDetails } from "./admin/describe-user.ts";
import { endUserSessions } from "./admin/end-user-sessions.ts";
import { inviteUser } from "./admin/invite-user.ts";
import { mailUser, type UserLink } from "./admin/mail-user.ts";
import { listUsers } from "./admin/managed-users.ts";
import { removeUserPasskey, resetUserMfa } from "./admin/reset-user-mfa.ts";
import { setUserAccess } from "./admin/set-user-access.ts";
import { unlockUser } from "./admin/unlock-user.ts";
import type { UserSort, UserTotal } from "./admin/user-admin-store.ts";
import type { UsedApproval } from "./approvals/approval-store.ts";
import { listUsedApprovals } from "./approvals/list-used-approvals.ts";
import { actReason } from "./audit/act-reason.ts";
import type { MachineClient } from "./clients/client-store.ts";
import type { MailRecord } from "./mail/mail-outbox-store.ts";
import type { Account, Role, UserStatus } from "./users/account.ts";
import { encodeUser } from "./users/user-rpc.ts";

const administrators = ["gateway", "operator"] as const;

export const USER_ADMIN_CALLERS: Callers<UserAdminServiceServer> = {
  listUsers: administrators,
  getManagedUser: administrators,
  inviteUser: administrators,
  mailUser: administrators,
  getUserFigures: administrators,
  setUserAccess: administrators,
  resetUserMfa: administrators,
  removeUserPasskey: administrators,
  deleteUser: administrators,
  endUserSessions: administrators,
  unlockUser: administrators,
  listUsedApprovals: ["operator"],
};

const PERMISSIONS: MethodPermissions<UserAdminServiceServer> = {
  listUsers: "users:read",
  getManagedUser: "users:read",
  inviteUser: "users:help",
  mailUser: "users:help",
  getUserFigures: "users:read",
  setUserAccess: "users:write",
  resetUserMfa: "mfa:reset",
  removeUserPasskey: "mfa:reset",
  deleteUser: "users:delete",
  endUserSessions: "sessions:end",
  unlockUser: "users:unlock",
  listUsedApprovals: null,
};

export function createUserAdminRpc(
  deps: AdminDeps,
  recordReading: RecordReading,
): Implementation<UserAdminServiceServer> {
  const figures: KeptFigures = {};
  return withPermissions(deps, PERMISSIONS, {
    listUsers: async (request, context) => {
      const { query, ids, ...filter } = decodeFilter(request);
      const { address, ...typed } = lookedFor(request.query);
      await recordReading(context, {
        action: "user.listed",
        filter: filterText({ ...filter, ...typed, ids: ids?.length }),
        ...(address !== undefined && { address }),
      });
      const { users, nextCursor = "", total } = await listUsers(deps, { ...filter, query, ids });
      return { users: users.map(encodeManaged), nextCursor, ...encodeTotal(total) };
    },
    getManagedUser: async ({ userId }, context) => {
      await recordReading(context, { action: "user.read", resource: userId });
      const { account, details } = await describeUser(deps, userId);
      return { user: encodeManaged(account), details: encodeDetails(details) };
    },
    inviteUser: async ({ role, reason, ...person }, context) => {
      const invitation = { ...person, role: decodeRole(role), reason: actReason(reason) };
      return { user: encodeManaged(await inviteUser(deps, invitation, context)) };
    },
    mailUser: async ({ userId, link, reason }, context) => {
      await mailUser(deps, { userId, link: decodeLink(link), reason: actReason(reason) }, context);
      return {};
    },
    getUserFigures: () => countUsers(deps, figures),
    setUserAccess: async (request, context) => {
      const access = {
        userId: request.userId,
        role: decodeRole(request.role),
        status: decodeStatus(request.status),
        mustChangePassword: request.mustChangePassword,
        disableClients: request.disableClients,
        firstName: request.firstName,
        lastName: request.lastName,
        email: request.email,
        actReason: actReason(request.reason),
      };
      const { user, sessionIds, clients } = await setUserAccess(deps, access, context);
      return {
        user: encodeManaged(user),
        endedSessionIds: [...sessionIds],
        clients: encodeClients(clients),
      };
    },
    resetUserMfa: async ({ userId, reason }, context) => ({
      endedSessionIds: [...(await resetUserMfa(deps, userId, context, actReason(reason)))],
    }),
    removeUserPasskey: async ({ userId, passkeyId, reason }, context) => {
      const which = { userId, passkeyId, reason: actReason(reason) };
      return { endedSessionIds: [...(await removeUserPasskey(deps, which, context))] };
    },
    deleteUser: async ({ userId, disableClients, reason }, context) => {
      const how = { disableClients, reason: actReason(reason) };
      const { sessionIds, clients } = await deleteUser(deps, userId, context, how);
      return { endedSessionIds: [...sessionIds], clients: encodeClients(clients) };
    },
    endUserSessions: async ({ userId, sessionId, reason }, context) => {
      const which = { sessionId, reason: actReason(reason) };
      return { endedSessionIds: [...(await endUserSessions(deps, userId, context, which))] };
    },
    unlockUser: async ({ userId, reason }, context) => {
      await unlockUser(deps, userId, context, actReason(reason));
      return {};
    },
    listUsedApprovals: async ({ from, to, cursor, limit }, context) => {
      const filter = filterText({ from, to, cursor, limit });
      await recordReading(context, { action: "approval.listed", filter });
      const page = await listUsedApprovals(deps, { from, to, cursor: cursor || undefined, limit });
      return { approvals: page.approvals.map(encodeApproval), nextCursor: page.nextCursor ?? "" };
    },
  });
}

function decodeFilter({ neverLoggedIn, lastLoginBefore, ...request }: ProtoFilter) {
  return {
    query: request.query || undefined,
    ids: request.ids.length > 0 ? request.ids : undefined,
    role: decodeRole(request.role),
    status: decodeStatus(request.status),
    hasSecondFactor: request.hasSecondFactor,
    lastLogin: neverLoggedIn ? ("never" as const) : lastLoginBefore,
    sort: SORTS.get(request.sort),
    cursor: request.cursor || undefined,
    limit: request.limit,
  };
}

/** All others: the newest first. */
const SORTS = new Map<ProtoSort, UserSort>([
  [ProtoSort.OLDEST, "oldest"],
  [ProtoSort.LAST_LOGIN, "last_login"],
]);

const TOTALS = { exact: TotalIs.EXACT, about: TotalIs.ABOUT, over: TotalIs.OVER } as const;

function encodeTotal(total: UserTotal | undefined) {
  return { total: total?.count ?? 0, totalIs: total === undefined ? TotalIs.UNSPECIFIED : TOTALS[total.is] };
}

function encodeClients(clients: readonly MachineClient[]): OwnedClients {
  return { clients: clients.map(({ id, name, status }) => ({ id, name, active: status === "active" })) };
}

function encodeApproval({
  id,
  transactionText: transaction,
  digest,
  method,
  passkey,
}: UsedApproval): ProtoUsedApproval {
  return { id, transaction, digest, method, passkey };
}

function decodeLink(link: ProtoUserLink): UserLink {
  if (link === ProtoUserLink.CONFIRMATION) return "confirmation";
  if (link === ProtoUserLink.RESET) return "reset";
  throw new DomainError("validation_failed", "there is no such link");
}

const PROTO_STATUS: Record<UserStatus, ProtoStatus> = {
  active: ProtoStatus.ACTIVE,
  disabled: ProtoStatus.DISABLED,
};

const PROTO_MAIL_STATE: Record<MailRecord["state"], UserMailState> = {
  waiting: UserMailState.WAITING,
  sent: UserMailState.SENT,
  given_up: UserMailState.GIVEN_UP,
  withheld: UserMailState.WITHHELD,
};

function encodeDetails({ lockedUntil, mails, passkeys, ...details }: UserDetails): ProtoDetails {
  return {
    ...details,
    locked: lockedUntil !== undefined,
    lockedUntil: lockedUntil ?? undefined,
    passkeys: passkeys.map(({ id, name, createdAt, lastUsedAt }) => ({
      id,
      name,
      createdAt,
      lastUsedAt: lastUsedAt ?? undefined,
    })),
    mails: mails.map(({ state, endedAt, ...mail }) => ({
      ...mail,
      state: PROTO_MAIL_STATE[state],
      endedAt: endedAt ?? undefined,
    })),
  };
}

function encodeManaged(account: Omit<Account, "passwordHash">): ManagedUser {
  return {
    user: encodeUser(account),
    status: PROTO_STATUS[account.status],
    firstLoginAt: account.firstLoginAt ?? undefined,
    lastLoginAt: account.lastLoginAt ?? undefined,
    mustChangePassword: account.mustChangePassword,
  };
}

/** Undefined: none is named. @throws {DomainError} `validation_failed` for what is no role. */
function decodeRole(role: string): Role | undefined {
  if (role === "") return undefined;
  if (!isRoleName(role)) throw new DomainError("validation_failed", "the role is unknown");
  return role;
}

/** Rejects values of newer versions instead of ignoring them. */
function decodeStatus(message: ProtoStatus): UserStatus | undefined {
  if (message === ProtoStatus.UNSPECIFIED) return undefined;
  if (message === ProtoStatus.ACTIVE) return "active";
  if (message === ProtoStatus.DISABLED) return "disabled";
  throw new DomainError("validation_failed", "the status is unknown");
}
