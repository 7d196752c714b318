import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { RecordAuditDeps } from "../audit/record-audit.ts";
import {
  deleteWrongCodes,
  forgiveWrongCodes,
  insertWrongCode,
  readWrongCodes,
} from "./mfa-guessing-store.ts";

const DAY_MS = 24 * 3_600_000;

/** For known and other devices each: a day of guessing succeeds with 40 × 2 valid of 1,000,000 codes = 8e-5. */
const TRIES = [
  { count: 10, windowMs: 15 * 60_000 },
  { count: 20, windowMs: DAY_MS },
] as const;

/** TOTP codes are then refused until a recovery code or a new password. */
const MAX_IN_A_ROW = 100;

export interface CodeOrigin {
  userId: string;
  isKnownDevice: boolean;
}

/** Requires the user lock. Not for recovery codes. @throws {DomainError} `too_many_requests`. */
export async function assertTriesLeft(
  tx: TransactionSql,
  deps: RecordAuditDeps,
  origin: CodeOrigin,
): Promise<void> {
  const nowMs = deps.now().getTime();
  const { inARow, failedAt } = await readWrongCodes(tx, { ...origin, since: new Date(nowMs - DAY_MS) });
  const waits = TRIES.map(({ count, windowMs }) => {
    const decisive = failedAt.at(-count);
    return decisive === undefined ? 0 : decisive.getTime() + windowMs - nowMs;
  });
  const retryAfterMs = Math.max(...waits, inARow >= MAX_IN_A_ROW ? DAY_MS : 0);
  if (retryAfterMs > 0) throw new DomainError("too_many_requests", "Too many wrong codes", { retryAfterMs });
}

/** Must be committed. Returns the number in a row. */
export function noteWrongCode(
  tx: TransactionSql,
  deps: RecordAuditDeps,
  origin: CodeOrigin,
): Promise<number> {
  return insertWrongCode(tx, { ...origin, id: deps.newId(), failedAt: deps.now() });
}

/** At most daily: the mailbox then at most doubles the daily attempts. */
export async function forgiveWrongCodesFor(
  tx: TransactionSql,
  deps: Pick<RecordAuditDeps, "now">,
  userId: string,
): Promise<void> {
  const now = deps.now();
  await forgiveWrongCodes(tx, { userId, now, forgivenBefore: new Date(now.getTime() - DAY_MS) });
}

const MAX_BATCH = 1_000;

export async function deleteOldWrongCodes(deps: { sql: Sql; now: () => Date }): Promise<void> {
  const failedBefore = new Date(deps.now().getTime() - DAY_MS);
  while ((await deleteWrongCodes(deps.sql, failedBefore, MAX_BATCH)) === MAX_BATCH);
}
