import { DomainError } from "../service-kit/errors.ts";
import { type Sql, transaction } from "../service-kit/postgres.ts";
import { insertRevocationEvent, type RevocationCause } from "./revocation-event.ts";
import type { RevocationFeed } from "./revocation-feed.ts";
import { appendRevocations } from "./revocation-store.ts";
import {
  eraseOrigins,
  lockLiveSessions,
  lockSession,
  lockUser,
  markSessionsRevoked,
  type SessionRow,
} from "./session-store.ts";
import { accessTokenLifeS, type TokenLifetimes } from "./token-lifetimes.ts";

/** The reason that also has where the sessions were used from forgotten. */
const ERASED = "account_deleted";

/**
 * A session that began this long after the cause still ends with it: the two times are of two processes, whose clocks
 * may be a few seconds apart, and a cause takes its time some seconds before its transaction commits.
 */
const BEGUN_ROOM_MS = 60_000;

/** Which sessions of a user end, and why. */
interface UserSessionsEnd {
  userId: string;
  /** The one that stays. */
  exceptSessionId?: string;
  reason: string;
  /** The time of the cause, for an end that comes late: what began a minute after it stays. Undefined: nothing stays. */
  begunBefore?: Date | undefined;
}

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
  const sequence = await transaction(deps.sql, async (tx) => {
    const session = await lockSession(tx, request.sessionId);
    const now = deps.now();
    if (session?.userId !== request.userId) throw new DomainError("not_found");
    if (request.reason === ERASED) await eraseOrigins(tx, session.userId);
    if (session.revokedAt !== null) return appendRevocations(tx, [], 0);
    await markSessionsRevoked(tx, [session.id], request.reason, now);
    if (request.recordedAs)
      await insertRevocationEvent(tx, "session_revoked", { ...request, ...request.recordedAs }, now);
    return appendRevocations(tx, [{ sessionId: session.id }], accessTokenLifeS(deps.lifetimes.accessTtlS));
  });
  deps.revocations.announce();
  if (request.recordedAs) deps.onSecurityEvent();
  return sequence;
}

/**
 * Ends all live sessions of a user but the excepted one, in one transaction that no new session can slip past. For the
 * reason `account_deleted` nothing personal of any of them remains.
 * @returns the ended sessions and the number that the revocation log reached.
 */
export async function revokeUserSessions(
  deps: RevokeSessionDeps,
  request: UserSessionsEnd,
): Promise<{ sessionIds: string[]; sequence: number }> {
  const result = await transaction(deps.sql, async (tx) => {
    await lockUser(tx, request.userId);
    const live = await lockLiveSessions(tx, request.userId);
    const now = deps.now();
    const sessionIds = live.filter((session) => isToEnd(session, request)).map(({ id }) => id);
    if (sessionIds.length > 0) await markSessionsRevoked(tx, sessionIds, request.reason, now);
    if (request.reason === ERASED) await eraseOrigins(tx, request.userId);
    const targets = sessionIds.map((sessionId) => ({ sessionId }));
    const lifeS = accessTokenLifeS(deps.lifetimes.accessTtlS);
    return { sessionIds, sequence: await appendRevocations(tx, targets, lifeS) };
  });
  deps.revocations.announce();
  return result;
}

/** An erased account keeps no session, however young. */
function isToEnd({ id, createdAt }: Pick<SessionRow, "id" | "createdAt">, request: UserSessionsEnd): boolean {
  const { exceptSessionId, reason, begunBefore } = request;
  if (id === exceptSessionId) return false;
  if (begunBefore === undefined || reason === ERASED) return true;
  return createdAt.getTime() < begunBefore.getTime() + BEGUN_ROOM_MS;
}
