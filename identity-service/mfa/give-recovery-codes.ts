import type { TransactionSql } from "../../service-kit/postgres.ts";
import { replaceRecoveryCodes } from "./mfa-store.ts";
import { newRecoveryCodes, normalCode, recoveryCodeHash } from "./recovery-code.ts";

/** Returns the plaintext, which is not stored. */
export async function giveRecoveryCodes(
  tx: TransactionSql,
  deps: { now: () => Date; randomBytes: (count: number) => Buffer },
  userId: string,
): Promise<string[]> {
  const codes = newRecoveryCodes(deps.randomBytes);
  const hashes = codes.flatMap((code) => recoveryCodeHash(normalCode(code)) ?? []);
  await replaceRecoveryCodes(tx, userId, hashes, deps.now());
  return codes;
}
