import { validate as isUuid } from "uuid";
import type { CallContext } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";
import { orUnavailable } from "../service-kit/postgres.ts";
import { lockActiveAdmins } from "./account-store.ts";
import { type EndSessionsDeps, endSessions, owesSessionEnd } from "./end-sessions.ts";
import type { Throttle } from "./throttle.ts";
import { clearGuesses } from "./throttle.ts";
import type { ManagedUser, Role, UserStatus } from "./user.ts";
import { lockManagedUser, setAccess } from "./user-admin-store.ts";

export interface SetUserAccessDeps extends EndSessionsDeps {
  throttle: Pick<Throttle, "clear">;
}

/** What an account shall be; what is undefined stays. */
export interface UserAccess {
  userId: string;
  role?: Role | undefined;
  status?: UserStatus | undefined;
}

/**
 * Changes role and status of an account, together. A change of role and a disable end the user's sessions: they are
 * committed first, so that no crash leaves access behind, and have ended when this resolves. Setting the status to
 * active also clears the failures that slow its logins down.
 *
 * @returns the account as it is now, and the ids of the sessions that ended.
 * @throws {DomainError} `not_found`; `last_admin` if no active administrator would be left; `service_unavailable`,
 *   after which the change may be committed and the sessions end when token-service is back.
 */
export async function setUserAccess(
  deps: SetUserAccessDeps,
  access: UserAccess,
  context: CallContext,
): Promise<{ user: ManagedUser; sessionIds: readonly string[] }> {
  const { userId } = access;
  if (!isUuid(userId)) throw new DomainError("not_found");
  const { user, end } = await orUnavailable(
    deps.sql.begin(async (tx) => {
      const admins = await lockActiveAdmins(tx);
      const before = await lockManagedUser(tx, userId);
      if (before === undefined) throw new DomainError("not_found");
      const role = access.role ?? before.user.role;
      const status = access.status ?? before.status;
      const staysAdmin = role === "ADMIN" && status === "active";
      if (!staysAdmin && isOnly(admins, before.user.id)) throw new DomainError("last_admin");
      const isChanged = role !== before.user.role || status !== before.status;
      if (isChanged) await setAccess(tx, { userId, role, status, at: deps.now() });
      const reason = reasonToEnd(before, role, access.status);
      const owed =
        reason === undefined ? undefined : await owesSessionEnd(tx, deps, { userId: before.user.id, reason });
      return { user: { ...before, user: { ...before.user, role }, status }, end: owed };
    }),
  );
  if (access.status === "active")
    await clearGuesses(deps.throttle, { userId: user.user.id, email: user.user.email });
  return { user, sessionIds: end === undefined ? [] : await endSessions(deps, end, context) };
}

/** Disabling ends sessions also where it changes nothing: whoever repeats it wants to be sure. */
function reasonToEnd(before: ManagedUser, role: Role, status: UserStatus | undefined): string | undefined {
  if (status === "disabled") return "account_disabled";
  return role === before.user.role ? undefined : "role_changed";
}

/** Whether nobody but this user is an active administrator. */
export function isOnly(admins: readonly string[], userId: string): boolean {
  return admins.length === 1 && admins[0] === userId;
}
