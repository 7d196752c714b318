import type { TransactionSql } from "#kit/database/postgres.ts";
import { insertEndedSessions } from "../events/security-event-store.ts";
import { appendRevocations } from "../revocations/revocation-store.ts";
import { accessTokenLifeS, type TokenLifetimes } from "../revocations/token-lifetimes.ts";
import { markSessionsRevoked } from "../rows/session-store.ts";

export interface SessionsEnd {
  /** All of one user, whose row locks the caller holds. */
  userId: string;
  sessionIds: readonly string[];
  reason: string;
  at: Date;
}

/**
 * Each way to end sessions of a user goes through here: an entry of the log of revocations, and an event for others.
 * The caller announces both after the commit. @returns the last log number.
 */
export async function endSessions(
  tx: TransactionSql,
  end: SessionsEnd,
  { accessTtlS }: Pick<TokenLifetimes, "accessTtlS">,
): Promise<number> {
  if (end.sessionIds.length > 0) {
    await markSessionsRevoked(tx, end.sessionIds, end.reason, end.at);
    await insertEndedSessions(tx, end);
  }
  const targets = end.sessionIds.map((sessionId) => ({ sessionId }));
  return appendRevocations(tx, targets, accessTokenLifeS(accessTtlS));
}
