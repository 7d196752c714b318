import type { TransactionSql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { isAdmin, lockActiveAdmins } from "./account-store.ts";
import { canLogIn, type LoginRules } from "./can-log-in.ts";

interface ActiveAdmin {
  id: string;
  canLogIn: boolean;
}

/** Call before locking an account of them. */
export async function lockAdmins(tx: TransactionSql, deps: LoginRules): Promise<ActiveAdmin[]> {
  return (await lockActiveAdmins(tx)).map(({ id, ...ways }) => ({ id, canLogIn: canLogIn(deps, ways) }));
}

/** Who cannot log in is no other administrator. */
function isLastAdmin(admins: readonly ActiveAdmin[], userId: string): boolean {
  return (
    admins.some(({ id }) => id === userId) && !admins.some(({ id, canLogIn }) => id !== userId && canLogIn)
  );
}

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
