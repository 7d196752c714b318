import type { User as ProtoUser } from "../../proto/gen/gatehouse/identity/v1/user.ts";
import { toProtoRole } from "./role-rpc.ts";
import type { User } from "./user.ts";

export function encodeUser(user: User): ProtoUser {
  return {
    id: user.id,
    email: user.email,
    firstName: user.firstName,
    lastName: user.lastName,
    role: toProtoRole(user.role),
    emailVerified: user.emailVerified,
    mfaEnabled: user.mfaEnabled,
    createdAt: user.createdAt,
  };
}
