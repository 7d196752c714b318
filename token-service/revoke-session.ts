import { DomainError } from "../service-kit/errors.ts";
import { orUnavailable, type Sql, transaction } from "../service-kit/postgres.ts";
import { insertRevocationEvent, type RevocationCause } from "./revocation-event.ts";
import type { RevocationFeed } from "./revocation-feed.ts";
import { appendRevocations } from "./revocation-store.ts";
import {
  eraseOrigins,
  lockLiveSessions,
  lockSession,
  lockUser,
  markSessionsRevoked,
} from "./session-store.ts";
import { accessTokenLifeS, type TokenLifetimes } from "./token-lifetimes.ts";

/** The reason that also has where the sessions were used from forgotten. */
const ERASED = "account_deleted";

export interface RevokeSessionDeps {
  sql: Sql;
  lifetimes: TokenLifetimes;
  revocations: Pick<RevocationFeed, "announce">;
  now: () => Date;
  /** Called after a commit that left a security event to deliver. */
  onSecurityEvent: () => void;
}

/**
 * Ends one session of a user, committed. Ending an ended one succeeds. For the reason `account_deleted` nothing personal
 * of any of the user's sessions remains.
 *
 * @param request.recordedAs the call, if this end is to be told to the audit log.
 * @returns the number that the revocation log reached.
 * @throws {DomainError} `not_found` if the user has no such session.
 */
export async function revokeSession(
  deps: RevokeSessionDeps,
  request: { sessionId: string; userId: string; reason: string; recordedAs?: RevocationCause },
): Promise<number> {
  const sequence = await orUnavailable(
    transaction(deps.sql, async (tx) => {
      const session = await lockSession(tx, request.sessionId);
      const now = deps.now();
      if (session?.userId !== request.userId) throw new DomainError("not_found");
      if (request.reason === ERASED) await eraseOrigins(tx, session.userId);
      if (session.revokedAt !== null) return appendRevocations(tx, [], 0);
      await markSessionsRevoked(tx, [session.id], request.reason, now);
      if (request.recordedAs)
        await insertRevocationEvent(tx, "session_revoked", { ...request, ...request.recordedAs }, now);
      return appendRevocations(tx, [{ sessionId: session.id }], accessTokenLifeS(deps.lifetimes.accessTtlS));
    }),
  );
  deps.revocations.announce();
  if (request.recordedAs) deps.onSecurityEvent();
  return sequence;
}

/**
 * Ends all live sessions of a user but the excepted one, in one transaction that no new session can slip past. For the
 * reason `account_deleted` nothing personal of any of them remains.
 *
 * @returns the ended sessions and the number that the revocation log reached.
 */
export async function revokeUserSessions(
  deps: RevokeSessionDeps,
  request: { userId: string; exceptSessionId?: string; reason: string },
): Promise<{ sessionIds: string[]; sequence: number }> {
  const result = await orUnavailable(
    transaction(deps.sql, async (tx) => {
      await lockUser(tx, request.userId);
      const live = await lockLiveSessions(tx, request.userId);
      const now = deps.now();
      const sessionIds = live.map(({ id }) => id).filter((id) => id !== request.exceptSessionId);
      if (sessionIds.length > 0) await markSessionsRevoked(tx, sessionIds, request.reason, now);
      if (request.reason === ERASED) await eraseOrigins(tx, request.userId);
      const targets = sessionIds.map((sessionId) => ({ sessionId }));
      const lifeS = accessTokenLifeS(deps.lifetimes.accessTtlS);
      return { sessionIds, sequence: await appendRevocations(tx, targets, lifeS) };
    }),
  );
  deps.revocations.announce();
  return result;
}
