import type { RouteOptions } from "fastify";
import type { BuiltInPermission } from "#access-file/access-file.ts";
import type { AuditAction } from "#audit-client/stream/audit-actions.ts";
import type { ApprovalDemand } from "#routes-file/routes-file.ts";
import type { AssuranceDemand } from "#token-client/assurance.ts";
import type { RouteAuth } from "#token-client/route-auth.ts";
import type { LimitClass } from "../limits/limit-class.ts";

export interface RoutePolicy {
  auth: RouteAuth;
  /** All of them, which also clients may hold. Only with `authenticated`. */
  permissions?: readonly string[];
  limitClass: LimitClass;
  /** Audit action: `auth.login`. Required for mutating methods, unless they are not audited. */
  action?: AuditAction;
  /** What the caller's session must have proven. Not on public routes. */
  assurance?: AssuranceDemand;
  /** Accepts a token in this member of the body instead. The route's `proof` or handler checks it. */
  orTokenInBody?: "refreshToken" | "tempToken";
  /** Which cookies the route reads or sets: the device's, or also the one of a browser session. */
  cookies?: "device" | "session";
  /** Its answer may have tokens, which are bound to the key of the call's proof. Only public routes. */
  issuesTokens?: true;
  /** Whether a call leaves an intent and an outcome, if its method does not show it. False needs a decision record. */
  isAudited?: boolean;
}

export interface RequestPolicy extends Omit<RoutePolicy, "limitClass" | "action"> {
  pattern: string;
  /** Of forwarded calls it is the routes file's. */
  action?: string;
  /** Of forwarded calls. */
  approval?: ApprovalDemand;
}

const MUTATING: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH", "DELETE"]);

export function isMutating(method: string): boolean {
  return MUTATING.has(method);
}

/** @throws at start if a route lacks `auth` or `limitClass`, or mutates without `action`. */
export function assertRoutePolicy(route: RouteOptions): void {
  const methods = [route.method].flat();
  const name = `${methods.join(",")} ${route.url}`;
  const { auth, permissions, action, assurance, isAudited, limitClass, issuesTokens, isProxy } =
    route.config ?? {};
  // The routes file is validated when it is read.
  if (isProxy) return;
  if (auth === undefined) throw new Error(`${name} has no config.auth`);
  if (typeof auth === "object" && auth.roles.length === 0) throw new Error(`${name} allows no role`);
  if (permissions !== undefined && (auth !== "authenticated" || permissions.length === 0))
    throw new Error(`${name} has permissions that are not checked`);
  if (auth !== "public" && issuesTokens !== undefined)
    throw new Error(`${name} needs a token, whose proof is no proof for new tokens`);
  if (auth === "public" && assurance !== undefined)
    throw new Error(`${name} is public and demands an assurance of its caller`);
  if (limitClass === undefined) throw new Error(`${name} has no config.limitClass`);
  if (methods.some(isMutating) && isAudited !== false && action === undefined) {
    throw new Error(`${name} has no audit action (config.action)`);
  }
}

/** Of a route under `/admin`, which demands all of the permissions. */
export type AdminPolicy = (...permissions: BuiltInPermission[]) => RoutePolicy;

export function createAdminPolicy(assurance: AssuranceDemand | undefined): AdminPolicy {
  return (...permissions) => ({
    auth: "authenticated",
    permissions,
    limitClass: "admin",
    ...(assurance && { assurance }),
  });
}
