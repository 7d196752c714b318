import type { RouteOptions } from "fastify";
import type { RouteAuth } from "../../token-client/route-auth.ts";

/** What is asked of a request, once its route is known. */
export interface RequestPolicy {
  auth: RouteAuth;
  /** Whether a refresh token in the body may prove who calls. */
  orRefreshToken?: boolean;
  /** What it does, for the audit log. */
  action?: string;
  /** Whether it changes something, where the method does not say so. */
  hasEffect?: boolean;
  /** The route as logs, metrics and the audit log call it. */
  pattern: string;
}

const MUTATING: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH", "DELETE"]);

export function isMutating(method: string): boolean {
  return MUTATING.has(method);
}

/**
 * An `onRoute` hook: a route that does not say who may call it, or that changes things without a name for
 * the audit log, stops the start.
 */
export function assertRoutePolicy(route: RouteOptions): void {
  const methods = [route.method].flat();
  const name = `${methods.join(",")} ${route.url}`;
  const { auth, action, isProxy } = route.config ?? {};
  // The routes file was checked when it was read.
  if (isProxy) return;
  if (auth === undefined) throw new Error(`${name} does not say who may call it (config.auth)`);
  if (typeof auth === "object" && auth.roles.length === 0) throw new Error(`${name} lets no role in`);
  if (methods.some(isMutating) && (action === undefined || action === "")) {
    throw new Error(`${name} has no audit action (config.action)`);
  }
}
