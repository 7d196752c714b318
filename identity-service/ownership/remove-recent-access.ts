import type { TransactionSql } from "../../service-kit/postgres.ts";
import { deleteIdentitiesSince } from "../identities/external-identity-store.ts";
import { deleteSecondFactor, findTotpCredential } from "../mfa/mfa-store.ts";

const DAY_MS = 24 * 3_600_000;
/** Identities linked this shortly before a reverted change are considered the attacker's. */
export const RECENT_IDENTITY_MS = 30 * DAY_MS;
/** Equals the lifetime of the undo link. Access to the mailbox alone must not remove an older factor. */
const RECENT_FACTOR_MS = 7 * DAY_MS;

export interface RemovedAccess {
  providers: readonly string[];
  hadSecondFactor: boolean;
}

/** Requires the account lock. */
export async function removeRecentAccess(
  tx: TransactionSql,
  userId: string,
  changedAt: Date,
): Promise<RemovedAccess> {
  const before = (ms: number) => new Date(changedAt.getTime() - ms);
  const providers = await deleteIdentitiesSince(tx, userId, before(RECENT_IDENTITY_MS));
  const confirmedAt = (await findTotpCredential(tx, userId))?.confirmedAt ?? null;
  const isRecent = confirmedAt !== null && confirmedAt >= before(RECENT_FACTOR_MS);
  return { providers, hadSecondFactor: isRecent && (await deleteSecondFactor(tx, userId)) };
}
