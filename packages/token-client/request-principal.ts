import type { IncomingMessage } from "node:http";
import { type AssuranceDemand, assertAssured } from "./assurance.ts";
import { authorizationsOf, verifyAuthorization } from "./bearer-token.ts";
import type { Principal, RequestVerifier } from "./principal.ts";
import { assertAllowed, type RouteAuth } from "./route-auth.ts";

/** Who may call a route. */
export interface RouteDemand {
  auth: Exclude<RouteAuth, "public">;
  /** What the session of the caller must have proven. */
  assurance?: AssuranceDemand | undefined;
}

const principals = new WeakMap<IncomingMessage, Principal>();

/**
 * Keeps the principal for `principalOfRequest`. Without `auth` nobody is admitted.
 * @throws {DomainError} as `verifyAuthorization`, or `forbidden` or `step_up_required` by what the route demands.
 */
export async function admitRequest(
  request: IncomingMessage,
  verifier: RequestVerifier,
  { auth, assurance }: { [Name in keyof RouteDemand]?: RouteDemand[Name] | undefined },
  clientIp: string | undefined,
): Promise<Principal> {
  const principal = await verifyAuthorization(verifier, authorizationsOf(request), clientIp);
  assertAllowed(auth, principal);
  assertAssured(assurance, principal, verifier.nowMs());
  principals.set(request, principal);
  return principal;
}

/** @throws if the request was not admitted. */
export function principalOfRequest(request: IncomingMessage): Principal {
  const principal = principals.get(request);
  if (principal === undefined) throw new Error(`${request.url} is public and has no principal`);
  return principal;
}
