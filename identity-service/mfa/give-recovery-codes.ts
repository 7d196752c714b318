import type { TransactionSql } from "#kit/database/postgres.ts";
import type { Account, Locked } from "../users/account.ts";
import type { MfaDeps } from "./mfa-deps.ts";
import { replaceRecoveryCodes } from "./mfa-store.ts";
import { newRecoveryCodes, normalCode, recoveryCodeHash } from "./recovery-code.ts";

/**
 * Those of an earlier factor stay: a new one must not take the owner's away. Returns none then.
 * @param user as they were before the factor.
 */
export async function giveFirstRecoveryCodes(
  tx: TransactionSql,
  deps: Pick<MfaDeps, "now" | "randomBytes">,
  user: Locked<Account>,
): Promise<string[]> {
  return user.mfaEnabled ? [] : giveRecoveryCodes(tx, deps, user.id);
}

/** Returns the plaintext, which is not stored. */
export async function giveRecoveryCodes(
  tx: TransactionSql,
  deps: Pick<MfaDeps, "now" | "randomBytes">,
  userId: string,
): Promise<string[]> {
  const codes = newRecoveryCodes(deps.randomBytes);
  const hashes = codes.flatMap((code) => recoveryCodeHash(normalCode(code)) ?? []);
  await replaceRecoveryCodes(tx, userId, hashes, deps.now());
  return codes;
}
