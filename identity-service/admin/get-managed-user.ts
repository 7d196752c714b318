import { validate as isUuid } from "uuid";
import { DomainError } from "../../service-kit/errors.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import type { ManagedUser } from "../users/user.ts";
import { findManagedUser } from "./user-admin-store.ts";

/** @throws {DomainError} `not_found`, also for an id that is no UUID; `service_unavailable`. */
export async function getManagedUser(deps: { sql: Sql }, userId: string): Promise<ManagedUser> {
  const found = isUuid(userId) ? await findManagedUser(deps.sql, userId) : undefined;
  if (found === undefined) throw new DomainError("not_found");
  return found;
}
