import type { User } from "../../proto/gen/gatehouse/identity/v1/user.ts";
import type { Account } from "./account.ts";
import { toProtoRole } from "./role-rpc.ts";

export function encodeUser(account: Pick<Account, Exclude<keyof User, "roleName">>): User {
  return {
    id: account.id,
    email: account.email,
    firstName: account.firstName,
    lastName: account.lastName,
    role: toProtoRole(account.role),
    roleName: account.role,
    emailVerified: account.emailVerified,
    mfaEnabled: account.mfaEnabled,
    createdAt: account.createdAt,
  };
}
