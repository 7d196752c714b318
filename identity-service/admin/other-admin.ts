import { DomainError } from "../../service-kit/errors.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { isAdmin, lockActiveAdmins } from "../users/account-store.ts";

/** Call before locking the account. Locks only for an administrator, so that others do not wait. */
export async function lockAdminsFor(
  tx: TransactionSql,
  userId: string,
): Promise<readonly string[] | undefined> {
  return (await isAdmin(tx, userId)) ? lockActiveAdmins(tx) : undefined;
}

/** @throws {DomainError} `last_admin`; `service_unavailable` if the role changed since `lockAdminsFor`. */
export function assertOtherAdmin(admins: readonly string[] | undefined, userId: string): void {
  if (admins === undefined) {
    throw new DomainError("service_unavailable", "The role was changed at the same time; try again");
  }
  if (admins.length === 1 && admins[0] === userId) throw new DomainError("last_admin");
}
