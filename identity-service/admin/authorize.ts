import type { BuiltInPermission } from "#access-file/access-file.ts";
import { type AccessRules, holdsPermission } from "#access-file/access-rules.ts";
import type { Actor, CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Account, Role } from "../users/account.ts";

export interface AuthorizeDeps {
  access: AccessRules;
}

/** Undefined for a certificate's person, who may do all that the method's callers may. @throws {DomainError} `forbidden`. */
function limitedActor({ actor, person }: CallContext): Actor | undefined {
  if (person !== undefined) return undefined;
  if (actor === undefined) throw new DomainError("forbidden");
  return actor;
}

/** @throws {DomainError} `forbidden`, or `role_not_defined` if the actor's role is not in the access file. */
export function assertHolds(
  { access }: AuthorizeDeps,
  context: CallContext,
  permission: BuiltInPermission,
): void {
  const actor = limitedActor(context);
  if (actor === undefined) return;
  if (actor.scopes === undefined && !access.isDefined(actor.role)) throw new DomainError("role_not_defined");
  if (!holdsPermission(access, actor, permission)) throw new DomainError("forbidden");
}

/**
 * Call under the account lock.
 * @throws {DomainError} `forbidden` for a user who may administer more than the actor, and for the actor themselves: that
 * would go around what changes of one's own account demand (`passwords/prove-owner.ts`).
 */
export function assertMayActOn(
  { access }: AuthorizeDeps,
  context: CallContext,
  user: Pick<Account, "id" | "role">,
): void {
  const actor = limitedActor(context);
  if (actor === undefined) return;
  if (actor.userId === user.id || !access.mayActOn(actor, user.role)) throw new DomainError("forbidden");
}

/** @throws {DomainError} `validation_failed` for a role that is not defined, `forbidden` for one that holds more. */
export function assertMayAssign(deps: AuthorizeDeps, context: CallContext, role: Role): void {
  if (!deps.access.isDefined(role)) {
    const problem = { field: "role", code: "invalid_format", message: "is not a role of the access file" };
    throw new DomainError("validation_failed", undefined, { fields: [problem] });
  }
  assertHolds(deps, context, "roles:assign");
  const actor = limitedActor(context);
  if (actor !== undefined && !deps.access.mayAssign(actor, role)) throw new DomainError("forbidden");
}
