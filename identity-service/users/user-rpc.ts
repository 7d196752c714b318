import type { User } from "#proto/gatehouse/identity/v1/user.ts";
import type { Account } from "./account.ts";

export function encodeUser(account: Pick<Account, keyof User>): User {
  return {
    id: account.id,
    email: account.email,
    firstName: account.firstName,
    lastName: account.lastName,
    role: account.role,
    emailVerified: account.emailVerified,
    mfaEnabled: account.mfaEnabled,
    createdAt: account.createdAt,
    language: account.language ?? "",
    timeZone: account.timeZone ?? "",
  };
}
