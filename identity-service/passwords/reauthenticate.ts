import type { Sql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { countGuess, type GuessVerdict } from "../throttle/count-guess.ts";
import { reauthenticationOf, type Throttle } from "../throttle/throttle.ts";
import type { Account, Locked } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import type { HashShare } from "./hash-share.ts";
import type { PasswordHasher } from "./password-hasher.ts";

export interface ReauthenticateDeps {
  sql: Sql;
  passwords: Pick<PasswordHasher, "verify">;
  throttle: Pick<Throttle, "turn" | "take" | "giveBack" | "succeed">;
  hashShare: HashShare;
}

export interface Reauthentication {
  userId: string;
  password: string;
  clientIp: string;
}

/**
 * Throttled apart from logins, so that a stolen session cannot block logins, nor the reverse.
 * @throws {DomainError} `invalid_credentials`, also when throttled.
 */
export async function reauthenticate(
  deps: ReauthenticateDeps,
  claim: Reauthentication,
  deadlineMs: number,
): Promise<Account> {
  const { clientIp } = claim;
  const guess = { account: reauthenticationOf(claim.userId), clientIp, standing: "session" } as const;
  const counted = await countGuess(deps.throttle, guess, deadlineMs, () => undefined);
  let shown: GuessVerdict = "none";
  try {
    const account = await findAccountById(deps.sql, claim.userId);
    const isKnown = account?.status === "active" && !counted.isLocked;
    const verdict = await deps.hashShare.run({ clientIp, isKnown: true }, () =>
      deps.passwords.verify(isKnown ? account : undefined, claim.password, deadlineMs),
    );
    shown = isKnown && verdict !== "mismatch" ? "right" : "wrong";
    if (!isKnown || verdict === "mismatch") throw new DomainError("invalid_credentials");
    return account;
  } finally {
    await counted.end(shown);
  }
}

/** A rehash counts as a change, and so do an end of sessions and a first second factor, which the proof did not have. */
export function isStill(checked: Account, now: Locked<Account> | undefined): now is Locked<Account> {
  if (now?.status !== "active" || now.passwordHash !== checked.passwordHash) return false;
  const hasNewFactor = now.mfaEnabled && !checked.mfaEnabled;
  return !hasNewFactor && now.sessionEpoch === checked.sessionEpoch;
}
