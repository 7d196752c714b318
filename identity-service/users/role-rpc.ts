import { Role as ProtoRole } from "../../proto/gen/gatehouse/token/v1/principal.ts";
import { isRoleName } from "../../service-kit/access-names.ts";
import { DomainError } from "../../service-kit/errors.ts";
import type { Role } from "./account.ts";

/** The roles of the version before, whose peers read the enum alone. */
const PROTO_ROLE = new Map<Role, ProtoRole>([
  ["USER", ProtoRole.USER],
  ["ADMIN", ProtoRole.ADMIN],
  ["AUDITOR", ProtoRole.AUDITOR],
]);

/** UNSPECIFIED for other roles. */
export function toProtoRole(role: Role): ProtoRole {
  return PROTO_ROLE.get(role) ?? ProtoRole.UNSPECIFIED;
}

/** Undefined: not told. @throws {DomainError} `validation_failed` for what is no role. */
export function fromProtoRole({ role, roleName }: { role: ProtoRole; roleName: string }): Role | undefined {
  if (roleName === "" && role === ProtoRole.UNSPECIFIED) return undefined;
  const name = roleName || [...PROTO_ROLE].find(([, value]) => value === role)?.[0];
  if (!isRoleName(name)) throw new DomainError("validation_failed", "the role is unknown");
  return name;
}
