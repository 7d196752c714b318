import type { TransactionSql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { isAdmin } from "../users/account-store.ts";
import type { LoginRules } from "../users/can-log-in.ts";
import { type ActiveAdmin, isLastAdmin, lockAdmins } from "../users/last-admin.ts";

/** Call before locking the account. Locks only for an administrator, so that others do not wait. */
export async function lockAdminsFor(
  tx: TransactionSql,
  deps: LoginRules,
  userId: string,
): Promise<readonly ActiveAdmin[] | undefined> {
  return (await isAdmin(tx, userId)) ? lockAdmins(tx, deps) : undefined;
}

/** @throws {DomainError} `last_admin`; `service_unavailable` if the role changed since `lockAdminsFor`. */
export function assertOtherAdmin(admins: readonly ActiveAdmin[] | undefined, userId: string): void {
  if (admins === undefined) {
    throw new DomainError("service_unavailable", "The role was changed at the same time; try again");
  }
  if (isLastAdmin(admins, userId)) throw new DomainError("last_admin");
}
