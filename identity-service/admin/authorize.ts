import type { BuiltInPermission } from "#access-file/access-file.ts";
import { type AccessRules, holdsPermission } from "#access-file/access-rules.ts";
import type { Actor, CallContext } from "#kit/rpc/call-context.ts";
import type { RpcContext } from "#kit/rpc/rpc-admission.ts";
import type { Implementation } from "#kit/rpc/rpc-server.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { MailBudgetDeps } from "../mail/mail-budget.ts";
import type { MakeLinkDeps } from "../mail/make-link.ts";
import type { EndSessionsDeps } from "../sessions/end-sessions.ts";
import type { TokenService } from "../sessions/token-service-client.ts";
import type { Throttle } from "../throttle/throttle.ts";
import type { Account, Role } from "../users/account.ts";
import type { LoginRules } from "../users/can-log-in.ts";

export interface AdminDeps extends EndSessionsDeps, MakeLinkDeps, MailBudgetDeps, AuthorizeDeps, LoginRules {
  tokenService: Pick<
    TokenService,
    "revokeUserSessions" | "revokeClientTokens" | "isSessionLive" | "revokeSession"
  >;
  throttle: Pick<Throttle, "clear" | "forget" | "lockedUntil">;
  trustedDeviceDays: number;
  smtpUtf8: boolean;
  wakeMailWorker: () => void;
}

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
  // Whoever may make clients could act on themselves through one.
  const isOwnWay =
    actor.userId === user.id || (actor.scopes !== undefined && access.holds(user.role, "clients:write"));
  if (isOwnWay || !access.mayActOn(actor, user.role)) throw new DomainError("forbidden");
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

/** What a user's role must hold, by method. Null: certificates of persons only. */
export type MethodPermissions<S> = Record<keyof Implementation<S>, BuiltInPermission | null>;

type Method = (request: unknown, context: RpcContext) => Promise<unknown>;

/** Checks again what the gateway has checked: its file may be another one. */
export function withPermissions<S>(
  deps: AuthorizeDeps,
  permissions: MethodPermissions<S>,
  methods: Implementation<S>,
): Implementation<S> {
  const demanded = new Map(Object.entries<BuiltInPermission | null>(permissions));
  const checked = Object.entries(methods as Record<string, Method>).map(
    ([name, method]): [string, Method] => [
      name,
      async (request, context) => {
        assertMayCall(deps, context, demanded.get(name) ?? null);
        return method(request, context);
      },
    ],
  );
  return Object.fromEntries(checked) as Implementation<S>;
}

function assertMayCall(
  deps: AuthorizeDeps,
  context: CallContext,
  permission: BuiltInPermission | null,
): void {
  if (permission !== null) assertHolds(deps, context, permission);
  else if (context.person === undefined) throw new DomainError("forbidden");
}
