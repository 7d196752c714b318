import { DomainError } from "../../service-kit/errors.ts";
import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";
import {
  deleteWrongCodes,
  forgiveWrongCodes,
  insertWrongCode,
  readWrongCodes,
} from "./mfa-guessing-store.ts";

const DAY_MS = 24 * 3_600_000;

/**
 * Wrong codes of an account that are tried, wherever they were given; known devices and all others have each as many.
 * Two of a million codes count at any time, so a day of guessing with both gets in with 40 × 2 / 1,000,000 = 8e-5.
 */
export const TRIES = [
  { count: 10, windowMs: 15 * 60_000 },
  { count: 20, windowMs: DAY_MS },
] as const;

/** Wrong codes in a row after which no code of the app is tried any more, until a right recovery code or a new password. */
export const MAX_IN_A_ROW = 100;

interface Deps {
  now: () => Date;
  newId: () => string;
}

/** Whose wrong codes: those on devices that have passed the second factor count apart from all others. */
export interface CodeOrigin {
  userId: string;
  isKnownDevice: boolean;
}

/**
 * Under the lock of the user, so that codes that come at once are tried one after another. Not for recovery codes, which
 * nobody guesses.
 *
 * @throws {DomainError} `too_many_requests` after ten wrong codes in 15 minutes, 20 in a day, or 100 in a row.
 */
export async function assertTriesLeft(tx: TransactionSql, deps: Deps, origin: CodeOrigin): Promise<void> {
  const nowMs = deps.now().getTime();
  const { inARow, failedAt } = await readWrongCodes(tx, { ...origin, since: new Date(nowMs - DAY_MS) });
  const waits = TRIES.map(({ count, windowMs }) => {
    const decisive = failedAt.at(-count);
    return decisive === undefined ? 0 : decisive.getTime() + windowMs - nowMs;
  });
  const retryAfterMs = Math.max(...waits, inARow >= MAX_IN_A_ROW ? DAY_MS : 0);
  if (retryAfterMs > 0) throw new DomainError("too_many_requests", "Too many wrong codes", { retryAfterMs });
}

/** The transaction must commit, or the code was never tried. @returns how many wrong codes it makes in a row. */
export function noteWrongCode(tx: TransactionSql, deps: Deps, origin: CodeOrigin): Promise<number> {
  return insertWrongCode(tx, { ...origin, id: deps.newId(), failedAt: deps.now() });
}

/**
 * For a new password, which whoever has guessed with the old one does not know. At most once a day, so that who reads
 * the owner's mail gets no more than twice the tries of a day.
 */
export async function forgiveWrongCodesFor(
  tx: TransactionSql,
  deps: Pick<Deps, "now">,
  userId: string,
): Promise<void> {
  const now = deps.now();
  await forgiveWrongCodes(tx, { userId, now, forgivenBefore: new Date(now.getTime() - DAY_MS) });
}

const MAX_BATCH = 1_000;

/** Deletes wrong codes that count no more. */
export async function deleteOldWrongCodes(deps: { sql: Sql; now: () => Date }): Promise<void> {
  const failedBefore = new Date(deps.now().getTime() - DAY_MS);
  while ((await deleteWrongCodes(deps.sql, failedBefore, MAX_BATCH)) === MAX_BATCH);
}
