import { validate as isUuid } from "uuid";
import { transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { withReason } from "../audit/act-reason.ts";
import { type AccountEvent, recordAudit } from "../audit/record-audit.ts";
import type { MachineClient } from "../clients/client-store.ts";
import { endLeftClients, type LeftClients, leaveClients } from "../clients/clients-of-user.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import { clearGuesses } from "../throttle/throttle.ts";
import type { Account, Role, UserStatus } from "../users/account.ts";
import { lockAccount } from "../users/account-store.ts";
import { assertOtherAdmin, lockAdminsFor } from "../users/last-admin.ts";
import { changedNames } from "../users/personal-name.ts";
import { typedEmail } from "../users/valid-person.ts";
import { type AdminDeps, assertHolds, assertMayActOn, assertMayAssign } from "./authorize.ts";
import { setAccess } from "./user-admin-store.ts";
import { endVouching, vouchForEmail } from "./vouch-for-email.ts";

/** Undefined fields stay unchanged. */
export interface UserAccess {
  userId: string;
  role?: Role | undefined;
  status?: UserStatus | undefined;
  firstName?: string | undefined;
  lastName?: string | undefined;
  /** As typed. It becomes the address once its reader confirms; the present one takes back what was begun. */
  email?: string | undefined;
  /** True also ends the sessions. */
  mustChangePassword?: boolean | undefined;
  /** With `disabled`: the user's clients too. */
  disableClients?: boolean | undefined;
  /** Why, as `actReason` lets it pass. */
  actReason?: string;
}

interface ChangedUser {
  user: Account;
  sessionIds: readonly string[];
  /** The clients of a user who was disabled. */
  clients: readonly MachineClient[];
}

/**
 * Commits before the sessions end, so that a crash leaves no access.
 * @throws {DomainError} `forbidden`, `not_found`, `validation_failed`, `last_admin`, `email_already_registered`, `conflict`.
 */
export async function setUserAccess(
  deps: AdminDeps,
  access: UserAccess,
  context: CallContext,
): Promise<ChangedUser> {
  const { userId } = access;
  if (!isUuid(userId)) throw new DomainError("not_found");
  assertMayLeave(deps, access, context);
  // The answer says whether an address has an account.
  if (access.email !== undefined) assertHolds(deps, context, "users:read");
  const { names, problems } = changedNames(access);
  const typed = access.email === undefined ? undefined : typedEmail("email", access.email, deps.smtpUtf8);
  if (typed?.problem !== undefined) problems.push(typed.problem);
  if (problems.length > 0) throw new DomainError("validation_failed", undefined, { fields: problems });
  const { user, end, left } = await transaction(deps.sql, async (tx) => {
    const admins = await lockAdminsFor(tx, deps, userId);
    const before = await lockAccount(tx, userId);
    if (before === undefined) throw new DomainError("not_found");
    assertMayActOn(deps, context, before);
    const role = access.role ?? before.role;
    if (role !== before.role) assertMayAssign(deps, context, role);
    const status = access.status ?? before.status;
    const staysAdmin = role === "ADMIN" && status === "active";
    if (before.role === "ADMIN" && !staysAdmin) assertOtherAdmin(admins, before.id);
    const mustChangePassword = access.mustChangePassword ?? before.mustChangePassword;
    const { firstName = before.firstName, lastName = before.lastName } = names;
    const after: Account = { ...before, role, status, mustChangePassword, firstName, lastName };
    const events = changesOf(before, after);
    if (events.length > 0) await setAccess(tx, after, deps.now());
    if (role !== before.role || status !== before.status || typed?.email === before.email)
      await endVouching(tx, userId, deps.now());
    if (typed?.email !== undefined && typed.email !== before.email) {
      await vouchForEmail(tx, deps, after, typed.email);
      events.push({ type: "link_mailed", reason: "new address" });
    }
    for (const { type, reason: what } of events) {
      const event = { type, userId: before.id, reason: withReason(what, access.actReason) };
      await recordAudit(tx, deps, event, context);
    }
    const reason = reasonToEnd(access, events);
    const owed =
      reason === undefined ? undefined : await owesSessionEnd(tx, deps, { userId: before.id, reason });
    const leaver = {
      userId: before.id,
      disable: access.disableClients === true,
      isLeaving: before.status === "active",
    };
    const left = access.status === "disabled" ? await leaveClients(tx, deps, leaver, context) : NONE;
    return { user: after, end: owed, left };
  });
  if (typed !== undefined) deps.wakeMailWorker();
  if (access.status === "active") await clearGuesses(deps.throttle, user);
  const sessionIds = end === undefined ? [] : await endSessions(deps, end, context);
  await endLeftClients(deps, left, context);
  return { user, sessionIds, clients: left.clients };
}

const NONE: LeftClients = { clients: [], ends: [] };

function assertMayLeave(deps: AdminDeps, { status, disableClients }: UserAccess, context: CallContext): void {
  if (disableClients !== true) return;
  assertHolds(deps, context, "clients:write");
  if (status === "disabled") return;
  const fields = [{ field: "clients", code: "invalid_format", message: "goes with status disabled" }];
  throw new DomainError("validation_failed", undefined, { fields });
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
  // The log forgets nothing, and so has no names.
  if (before.firstName !== after.firstName || before.lastName !== after.lastName)
    changes.push({ type: "profile_updated", reason: "" });
  return changes;
}

/** A repeated restriction ends the sessions again. */
function reasonToEnd(access: UserAccess, changes: readonly Change[]): string | undefined {
  if (access.status === "disabled") return "account_disabled";
  if (changes.some(({ type }) => type === "role_changed")) return "role_changed";
  return access.mustChangePassword === true ? "password_change_required" : undefined;
}
