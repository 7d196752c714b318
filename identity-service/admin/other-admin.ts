import { DomainError } from "../../service-kit/errors.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { isAdmin, lockActiveAdmins } from "../users/account-store.ts";

/**
 * Locks every active administrator where somebody who is one may stop to be: before the account, as everywhere. For others
 * it locks nobody, or changes of any number of users would wait for each other.
 *
 * @returns their ids; undefined if the account is no administrator's now.
 */
export async function lockAdminsFor(
  tx: TransactionSql,
  userId: string,
): Promise<readonly string[] | undefined> {
  return (await isAdmin(tx, userId)) ? lockActiveAdmins(tx) : undefined;
}

/**
 * For an account that is an administrator's under its lock, and may stop to be one.
 *
 * @param admins what `lockAdminsFor` returned.
 * @throws {DomainError} `last_admin`; `service_unavailable` if the account has only become an administrator's since.
 */
export function assertOtherAdmin(admins: readonly string[] | undefined, userId: string): void {
  if (admins === undefined) {
    throw new DomainError("service_unavailable", "The role was changed at the same time; try again");
  }
  if (admins.length === 1 && admins[0] === userId) throw new DomainError("last_admin");
}
