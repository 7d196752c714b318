import type { TransactionSql } from "#kit/database/postgres.ts";
import { deleteIdentitiesSince } from "../identities/external-identity-store.ts";
import {
  deleteIdleRecoveryCodes,
  deleteRecoveryCodesSince,
  deleteTotp,
  findTotpCredential,
} from "../mfa/mfa-store.ts";
import { deletePasskeysSince } from "../passkeys/passkey-store.ts";

const DAY_MS = 24 * 3_600_000;
/** Younger ones count as the attacker's. */
export const RECENT_IDENTITY_MS = 30 * DAY_MS;
/** The undo link's lifetime. The mailbox alone must not remove an older factor, nor older recovery codes. */
const RECENT_FACTOR_MS = 7 * DAY_MS;

export interface RemovedAccess {
  providers: readonly string[];
  hadSecondFactor: boolean;
  /** How many. */
  passkeys: number;
}

/** Requires the account lock. */
export async function removeRecentAccess(
  tx: TransactionSql,
  userId: string,
  changedAt: Date,
): Promise<RemovedAccess> {
  const before = (ms: number) => new Date(changedAt.getTime() - ms);
  const providers = await deleteIdentitiesSince(tx, userId, before(RECENT_IDENTITY_MS));
  await deleteRecoveryCodesSince(tx, userId, before(RECENT_FACTOR_MS));
  const confirmedAt = (await findTotpCredential(tx, userId))?.confirmedAt ?? null;
  const isRecent = confirmedAt !== null && confirmedAt >= before(RECENT_FACTOR_MS);
  const hadSecondFactor = isRecent && (await deleteTotp(tx, userId));
  const passkeys = await deletePasskeysSince(tx, userId, before(RECENT_FACTOR_MS));
  await deleteIdleRecoveryCodes(tx, userId);
  return { providers, hadSecondFactor, passkeys };
}
