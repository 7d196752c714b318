import { DomainError } from "../../service-kit/errors.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { type ActiveAdmin, isAdmin, lockActiveAdmins } from "../users/account-store.ts";
import { isLastAdmin } from "../users/last-admin.ts";

/** Call before locking the account. Locks only for an administrator, so that others do not wait. */
export async function lockAdminsFor(
  tx: TransactionSql,
  userId: string,
): Promise<readonly ActiveAdmin[] | undefined> {
  return (await isAdmin(tx, userId)) ? lockActiveAdmins(tx) : undefined;
}

/** @throws {DomainError} `last_admin`; `service_unavailable` if the role changed since `lockAdminsFor`. */
export function assertOtherAdmin(admins: readonly ActiveAdmin[] | undefined, userId: string): void {
  if (admins === undefined) {
    throw new DomainError("service_unavailable", "The role was changed at the same time; try again");
  }
  if (isLastAdmin(admins, userId)) throw new DomainError("last_admin");
}
