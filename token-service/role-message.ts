import { Role } from "../proto/gen/gatehouse/token/v1/principal.ts";
import { isRoleName } from "../service-kit/access-names.ts";

/** The roles of the version before, whose peers read the enum alone. */
const MESSAGE = new Map([
  ["USER", Role.USER],
  ["ADMIN", Role.ADMIN],
  ["AUDITOR", Role.AUDITOR],
]);

/** UNSPECIFIED for other roles, which grants nothing. */
export function toRoleMessage(role: string): Role {
  return MESSAGE.get(role) ?? Role.UNSPECIFIED;
}

/** Undefined for what is no role. */
export function fromRoleMessage(message: Role, roleName: string): string | undefined {
  if (roleName !== "") return isRoleName(roleName) ? roleName : undefined;
  return [...MESSAGE].find(([, value]) => value === message)?.[0];
}
