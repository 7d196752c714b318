import type { RouteOptions } from "fastify";
import type { RouteAuth } from "../../token-client/route-auth.ts";
import type { LimitClass } from "../limits/limit-class.ts";

/** What a route of our own says about its calls. */
export interface RoutePolicy {
  /** Who may call. */
  auth: RouteAuth;
  /** What its calls are counted with. */
  limitClass: LimitClass;
  /** What a call does, for the audit log: `auth.login`. Required where the method changes something. */
  action?: string;
  /** Whether a refresh token in the body may prove who calls; the route looks at it. */
  orRefreshToken?: boolean;
  /** Whether a call changes something although its method does not say so. */
  hasEffect?: boolean;
}

/** What is asked of a request, once its route is known. */
export interface RequestPolicy extends Omit<RoutePolicy, "limitClass"> {
  /** The route as logs, metrics and the audit log call it. */
  pattern: string;
}

const MUTATING: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH", "DELETE"]);

export function isMutating(method: string): boolean {
  return MUTATING.has(method);
}

/**
 * An `onRoute` hook: a route that does not say who may call it and what its calls are counted with, or that changes things
 * without a name for the audit log, stops the start.
 */
export function assertRoutePolicy(route: RouteOptions): void {
  const methods = [route.method].flat();
  const name = `${methods.join(",")} ${route.url}`;
  const { auth, action, limitClass, isProxy } = route.config ?? {};
  // The routes file was checked when it was read.
  if (isProxy) return;
  if (auth === undefined) throw new Error(`${name} does not say who may call it (config.auth)`);
  if (typeof auth === "object" && auth.roles.length === 0) throw new Error(`${name} lets no role in`);
  if (limitClass === undefined)
    throw new Error(`${name} does not say what its calls are counted with (config.limitClass)`);
  if (methods.some(isMutating) && (action === undefined || action === "")) {
    throw new Error(`${name} has no audit action (config.action)`);
  }
}
