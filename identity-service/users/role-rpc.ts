import { Role as ProtoRole } from "../../proto/gen/gatehouse/token/v1/principal.ts";
import type { Role } from "./account.ts";

const PROTO_ROLE: Record<Role, ProtoRole> = {
  USER: ProtoRole.USER,
  ADMIN: ProtoRole.ADMIN,
  AUDITOR: ProtoRole.AUDITOR,
};

export function toProtoRole(role: Role): ProtoRole {
  return PROTO_ROLE[role];
}
