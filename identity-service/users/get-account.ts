import { validate as isUuid } from "uuid";
import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Account } from "./account.ts";
import { findAccountById } from "./account-store.ts";

/** @throws {DomainError} `not_found`, also for an id that is no UUID. */
export async function getAccount(deps: { sql: Sql }, userId: string): Promise<Account> {
  const account = isUuid(userId) ? await findAccountById(deps.sql, userId) : undefined;
  if (account === undefined) throw new DomainError("not_found");
  return account;
}
