import { validate as isUuid } from "uuid";
import { DomainError } from "../../service-kit/errors.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import type { User } from "./user.ts";
import { findUser } from "./user-store.ts";

/** @throws {DomainError} `not_found`, also for an id that is no UUID. */
export async function getUser(deps: { sql: Sql }, userId: string): Promise<User> {
  const user = isUuid(userId) ? await findUser(deps.sql, userId) : undefined;
  if (user === undefined) throw new DomainError("not_found");
  return user;
}
