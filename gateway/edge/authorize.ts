import { type AccessRules, holdsPermission } from "#access-file/access-rules.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Principal } from "#token-client/principal.ts";
import { assertAllowed } from "#token-client/route-auth.ts";
import type { RequestPolicy } from "../routing/route-policy.ts";
import { actorOf } from "./request/caller.ts";

/**
 * Users by the permissions of their role now, clients by what their token was granted.
 * @throws {DomainError} `forbidden`, or `role_not_defined` if the user's role is not in the access file.
 */
export function assertMayCall(
  rules: Pick<AccessRules, "holds" | "isDefined">,
  { auth, permissions }: Pick<RequestPolicy, "auth" | "permissions">,
  principal: Principal,
): void {
  if (principal.kind === "user" && !rules.isDefined(principal.role)) {
    throw new DomainError("role_not_defined");
  }
  if (permissions === undefined) {
    if (auth !== "public") assertAllowed(auth, principal);
    return;
  }
  const actor = actorOf(principal);
  const holdsAll = permissions.every((permission) => holdsPermission(rules, actor, permission));
  if (!holdsAll) throw new DomainError("forbidden");
}
