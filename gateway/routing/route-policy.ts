import type { RouteOptions } from "fastify";
import type { RouteAuth } from "../../token-client/route-auth.ts";
import type { LimitClass } from "../limits/limit-class.ts";

export interface RoutePolicy {
  auth: RouteAuth;
  limitClass: LimitClass;
  /** Audit action, for example `auth.login`. Required for mutating methods. */
  action?: string;
  /** The route accepts a refresh token in the body instead. */
  orRefreshToken?: boolean;
  /** The call has an audited effect although its method does not show it. */
  hasEffect?: boolean;
}

export interface RequestPolicy extends Omit<RoutePolicy, "limitClass"> {
  pattern: string;
}

const MUTATING: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH", "DELETE"]);

export function isMutating(method: string): boolean {
  return MUTATING.has(method);
}

/** @throws at start if a route lacks `auth` or `limitClass`, or mutates without `action`. */
export function assertRoutePolicy(route: RouteOptions): void {
  const methods = [route.method].flat();
  const name = `${methods.join(",")} ${route.url}`;
  const { auth, action, limitClass, isProxy } = route.config ?? {};
  // The routes file is validated when it is read.
  if (isProxy) return;
  if (auth === undefined) throw new Error(`${name} does not say who may call it (config.auth)`);
  if (typeof auth === "object" && auth.roles.length === 0) throw new Error(`${name} lets no role in`);
  if (limitClass === undefined)
    throw new Error(`${name} does not say what its calls are counted with (config.limitClass)`);
  if (methods.some(isMutating) && (action === undefined || action === "")) {
    throw new Error(`${name} has no audit action (config.action)`);
  }
}
