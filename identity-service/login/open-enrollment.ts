import type { TransactionSql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccountForMfa } from "../users/account-store.ts";
import { consumeEnrollment, countEnrollmentTry, findEnrollment } from "./enrollment-store.ts";
import { mfaTokenHash } from "./mfa-token.ts";

const MAX_TRIES = 10;

export interface OpenEnrollment {
  user: Locked<Account>;
  /** To which a registration's challenge is bound. */
  tokenHash: Buffer;
  /** Of the first factor. */
  amr: readonly string[];
  /** Call in the transaction that adds the factor. */
  consume: () => Promise<void>;
}

/** Locks the account and counts an attempt, which must be committed. @throws {DomainError} `mfa_token_invalid`. */
export async function openEnrollment(
  tx: TransactionSql,
  deps: { now: () => Date },
  tempToken: string,
): Promise<OpenEnrollment> {
  const tokenHash = mfaTokenHash(tempToken);
  const found = tokenHash && (await findEnrollment(tx, tokenHash));
  const user = found && (await lockAccountForMfa(tx, found.userId));
  if (tokenHash === undefined || found === undefined || user?.status !== "active") {
    throw new DomainError("mfa_token_invalid");
  }
  // The login has not proven the factor that was added since.
  if (user.mfaEnabled) throw new DomainError("mfa_token_invalid");
  const now = deps.now();
  const { sessionEpoch } = user;
  const isOpen = await countEnrollmentTry(tx, { tokenHash, sessionEpoch, now, maxTries: MAX_TRIES });
  if (!isOpen) throw new DomainError("mfa_token_invalid");
  return { user, tokenHash, amr: found.amr, consume: () => consumeEnrollment(tx, tokenHash, now) };
}
