import type { Sql } from "../../service-kit/postgres.ts";
import type { User } from "../users/user.ts";
import { countRecoveryCodes } from "./mfa-store.ts";

/**
 * How many recovery codes a user has not used yet; undefined without a second factor.
 *
 * @throws {DomainError} `service_unavailable`.
 */
export async function countRecoveryCodesLeft(deps: { sql: Sql }, user: User): Promise<number | undefined> {
  return user.mfaEnabled ? countRecoveryCodes(deps.sql, user.id) : undefined;
}
