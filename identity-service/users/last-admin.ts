import type { TransactionSql } from "#kit/database/postgres.ts";
import { lockActiveAdmins } from "./account-store.ts";
import { canLogIn, type LoginRules } from "./can-log-in.ts";

export interface ActiveAdmin {
  id: string;
  canLogIn: boolean;
}

/** Call before locking an account of them. */
export async function lockAdmins(tx: TransactionSql, deps: LoginRules): Promise<ActiveAdmin[]> {
  return (await lockActiveAdmins(tx)).map(({ id, ...ways }) => ({ id, canLogIn: canLogIn(deps, ways) }));
}

/** Who cannot log in is no other administrator. */
export function isLastAdmin(admins: readonly ActiveAdmin[], userId: string): boolean {
  return (
    admins.some(({ id }) => id === userId) && !admins.some(({ id, canLogIn }) => id !== userId && canLogIn)
  );
}
