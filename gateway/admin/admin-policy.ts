import type { BuiltInPermission } from "#access-file/access-file.ts";
import type { AssuranceDemand } from "#token-client/assurance.ts";
import type { RoutePolicy } from "../routing/route-policy.ts";

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
