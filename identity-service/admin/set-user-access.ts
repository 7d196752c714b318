import { validate as isUuid } from "uuid";
import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import { transaction } from "../../service-kit/postgres.ts";
import { type AccountEvent, tellAudit } from "../audit/tell-audit.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import { clearGuesses } from "../throttle/throttle.ts";
import type { Account, Role, UserStatus } from "../users/account.ts";
import { lockAccount } from "../users/account-store.ts";
import { withReason } from "./act-reason.ts";
import type { AdminDeps } from "./admin-deps.ts";
import { assertMayActOn, assertMayAssign } from "./authorize.ts";
import { assertOtherAdmin, lockAdminsFor } from "./other-admin.ts";
import { setAccess } from "./user-admin-store.ts";

/** Undefined fields stay unchanged. */
export interface UserAccess {
  userId: string;
  role?: Role | undefined;
  status?: UserStatus | undefined;
  /** True also ends the sessions. */
  mustChangePassword?: boolean | undefined;
  /** Why, as `actReason` lets it pass. */
  actReason?: string;
}

/**
 * Commits before the sessions end, so that a crash leaves no access.
 * @throws {DomainError} `forbidden`, `not_found`, `last_admin`.
 */
export async function setUserAccess(
  deps: AdminDeps,
  access: UserAccess,
  context: CallContext,
): Promise<{ user: Account; sessionIds: readonly string[] }> {
  const { userId } = access;
  if (!isUuid(userId)) throw new DomainError("not_found");
  const { user, end } = await transaction(deps.sql, async (tx) => {
    const admins = await lockAdminsFor(tx, userId);
    const before = await lockAccount(tx, userId);
    if (before === undefined) throw new DomainError("not_found");
    assertMayActOn(deps, context, before);
    const role = access.role ?? before.role;
    if (role !== before.role) assertMayAssign(deps, context, role);
    const status = access.status ?? before.status;
    const staysAdmin = role === "ADMIN" && status === "active";
    if (before.role === "ADMIN" && !staysAdmin) assertOtherAdmin(admins, before.id);
    const mustChangePassword = access.mustChangePassword ?? before.mustChangePassword;
    const after: Account = { ...before, role, status, mustChangePassword };
    const events = changesOf(before, after);
    if (events.length > 0) await setAccess(tx, { userId, role, status, mustChangePassword, at: deps.now() });
    for (const { type, reason: what } of events) {
      const told = { type, userId: before.id, reason: withReason(what, access.actReason) };
      await tellAudit(tx, deps, told, context);
    }
    const reason = reasonToEnd(access, events);
    const owed =
      reason === undefined ? undefined : await owesSessionEnd(tx, deps, { userId: before.id, reason });
    return { user: after, end: owed };
  });
  if (access.status === "active") await clearGuesses(deps.throttle, user);
  return { user, sessionIds: end === undefined ? [] : await endSessions(deps, end, context) };
}

type Change = Required<Pick<AccountEvent, "type" | "reason">>;

function changesOf(before: Account, after: Account): Change[] {
  const changes: Change[] = [];
  if (before.role !== after.role) {
    changes.push({ type: "role_changed", reason: `${before.role} to ${after.role}` });
  }
  if (before.status !== after.status) changes.push({ type: "status_changed", reason: after.status });
  if (before.mustChangePassword !== after.mustChangePassword) {
    const reason = after.mustChangePassword ? "" : "not any more";
    changes.push({ type: "password_change_required", reason });
  }
  return changes;
}

/** A repeated restriction ends the sessions again. */
function reasonToEnd(access: UserAccess, changes: readonly Change[]): string | undefined {
  if (access.status === "disabled") return "account_disabled";
  if (changes.some(({ type }) => type === "role_changed")) return "role_changed";
  return access.mustChangePassword === true ? "password_change_required" : undefined;
}
