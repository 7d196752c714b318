import { DomainError } from "../service-kit/errors.ts";
import type { TransactionSql } from "../service-kit/postgres.ts";
import type { MfaDeps } from "./mfa-deps.ts";
import { insertMfaFailure, listMfaFailures } from "./mfa-store.ts";

/** Wrong codes of an account, wherever they were given: ten in 15 minutes, of a million codes of which two count. */
const MAX_FAILURES = 10;
const WINDOW_MS = 15 * 60_000;

type Deps = Pick<MfaDeps, "now" | "newId">;

/**
 * Under the lock of the user, so that codes that come at once are tried one after another.
 *
 * @throws {DomainError} `too_many_requests` after ten wrong codes, until the oldest is 15 minutes old.
 */
export async function assertTriesLeft(tx: TransactionSql, deps: Deps, userId: string): Promise<void> {
  const nowMs = deps.now().getTime();
  const failures = await listMfaFailures(tx, userId, new Date(nowMs - WINDOW_MS));
  const decisive = failures.at(-MAX_FAILURES);
  if (decisive === undefined) return;
  throw new DomainError("too_many_requests", "Too many wrong codes; wait", {
    retryAfterMs: decisive.getTime() + WINDOW_MS - nowMs,
  });
}

/** The transaction must commit, or the code was never tried. */
export async function noteWrongCode(tx: TransactionSql, deps: Deps, userId: string): Promise<void> {
  const failedAt = deps.now();
  const forgetUntil = new Date(failedAt.getTime() - WINDOW_MS);
  await insertMfaFailure(tx, { id: deps.newId(), userId, failedAt, forgetUntil });
}
