import type { Sql } from "../../service-kit/postgres.ts";
import { countRecoveryCodes } from "../mfa/mfa-store.ts";
import { getUser } from "../users/get-user.ts";
import type { User } from "../users/user.ts";

/** An account as its owner sees it. */
export interface OwnAccount extends User {
  /** Recovery codes that were not used yet; undefined without a second factor. */
  recoveryCodesLeft: number | undefined;
}

/** @throws {DomainError} `not_found`, also for an id that is not a UUID; `service_unavailable`. */
export async function getOwnAccount(deps: { sql: Sql }, userId: string): Promise<OwnAccount> {
  const user = await getUser(deps, userId);
  const recoveryCodesLeft = user.mfaEnabled ? await countRecoveryCodes(deps.sql, userId) : undefined;
  return { ...user, recoveryCodesLeft };
}
