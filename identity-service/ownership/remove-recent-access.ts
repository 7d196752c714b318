import type { TransactionSql } from "../../service-kit/postgres.ts";
import { deleteIdentitiesSince } from "../identities/external-identity-store.ts";
import { deleteSecondFactor, findTotpCredential } from "../mfa/mfa-store.ts";

const DAY_MS = 24 * 3_600_000;
/** A login at a provider that was linked so shortly before counts as the intruder's. Its owner links it again. */
export const RECENT_IDENTITY_MS = 30 * DAY_MS;
/**
 * The same for a second factor: as long as the mail that told of it has a link against it. An older factor is not removed
 * by anybody who only reads the mailbox.
 */
const RECENT_FACTOR_MS = 7 * DAY_MS;

/** What could log in until now. */
export interface RemovedAccess {
  /** Names of the providers whose identities were unlinked. */
  providers: readonly string[];
  hadSecondFactor: boolean;
}

/**
 * Removes what was set up to log in with shortly before a change that the owner takes back, and since: an intruder may
 * have set it up first. In the transaction of the undoing, under the lock of the account.
 */
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
