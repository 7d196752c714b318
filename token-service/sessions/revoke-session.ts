import { type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { callTurn, withTurn } from "#kit/values/call-deadline.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type EventCause, insertCausedEvent } from "../events/security-event-store.ts";
import type { RevocationFeed } from "../revocations/revocation-feed.ts";
import { appendRevocations } from "../revocations/revocation-store.ts";
import { accessTokenLifeS, type TokenLifetimes } from "../revocations/token-lifetimes.ts";
import {
  eraseOrigins,
  lockLiveSessions,
  lockSession,
  lockUser,
  type SessionRow,
} from "../rows/session-store.ts";
import { endSessions } from "./end-sessions.ts";

/** Also erases addresses and user agents. */
const ERASED = "account_deleted";

/** Clocks differ, and a cause is dated before its commit. */
const BEGUN_ROOM_MS = 60_000;

interface UserSessionsEnd {
  userId: string;
  exceptSessionId?: string;
  reason: string;
  /** Sessions that began a minute later stay. Undefined ends all. */
  begunBefore?: Date | undefined;
}

export interface RevokeSessionDeps {
  sql: Sql;
  lifetimes: TokenLifetimes;
  revocations: Pick<RevocationFeed, "announce">;
  now: () => Date;
  onSecurityEvent: () => void;
}

/**
 * Idempotent. @param request.recordedAs the operator's call. @returns the last log number.
 * @throws {DomainError} `not_found` if the user has no such session.
 */
export async function revokeSession(
  deps: RevokeSessionDeps,
  request: { sessionId: string; userId: string; reason: string; recordedAs?: EventCause },
): Promise<number> {
  const end = async (tx: TransactionSql) => {
    const session = await lockSession(tx, request.sessionId);
    const now = deps.now();
    if (session?.userId !== request.userId) throw new DomainError("not_found");
    if (request.reason === ERASED) await eraseOrigins(tx, session.userId);
    if (session.revokedAt !== null) return appendRevocations(tx, [], 0);
    const { recordedAs, ...ended } = request;
    if (recordedAs)
      await insertCausedEvent(tx, { type: "session_revoked", ...ended, ...recordedAs, occurredAt: now });
    const { userId, sessionId, reason } = request;
    return endSessions(tx, { userId, sessionIds: [sessionId], reason, at: now }, deps.lifetimes);
  };
  const sequence = await withTurn(turnOfEnd(request.userId), () => transaction(deps.sql, end));
  deps.revocations.announce();
  deps.onSecurityEvent();
  return sequence;
}

/** No new session can bypass the transaction. */
export async function revokeUserSessions(
  deps: RevokeSessionDeps,
  request: UserSessionsEnd,
): Promise<{ sessionIds: string[]; sequence: number }> {
  const end = async (tx: TransactionSql) => {
    await lockUser(tx, request.userId);
    const live = await lockLiveSessions(tx, request.userId);
    const sessionIds = live.filter((session) => isToEnd(session, request)).map(({ id }) => id);
    const { userId, reason } = request;
    if (reason === ERASED) await eraseOrigins(tx, userId);
    const sequence = await endSessions(tx, { userId, sessionIds, reason, at: deps.now() }, deps.lifetimes);
    return { sessionIds, sequence };
  };
  const result = await withTurn(turnOfEnd(request.userId), () => transaction(deps.sql, end));
  deps.revocations.announce();
  if (result.sessionIds.length > 0) deps.onSecurityEvent();
  return result;
}

/** What administrators end, and what identity-service owes, waits behind no call of the user's own. */
function turnOfEnd(userId: string): string {
  return callTurn() === userId ? userId : `ends of ${userId}`;
}

function isToEnd({ id, createdAt }: Pick<SessionRow, "id" | "createdAt">, request: UserSessionsEnd): boolean {
  const { exceptSessionId, reason, begunBefore } = request;
  if (id === exceptSessionId) return false;
  if (begunBefore === undefined || reason === ERASED) return true;
  return createdAt.getTime() < begunBefore.getTime() + BEGUN_ROOM_MS;
}

/** Idempotent. @param ids of credentials (`sid`) or tokens (`jti`) of clients. @returns the last log number. */
export async function revokeClientTokens(
  deps: Pick<RevokeSessionDeps, "sql" | "lifetimes" | "revocations">,
  ids: readonly string[],
): Promise<number> {
  const targets = ids.map((sessionId) => ({ sessionId }));
  const lifeS = accessTokenLifeS(deps.lifetimes.accessTtlS);
  const sequence = await transaction(deps.sql, (tx) => appendRevocations(tx, targets, lifeS));
  deps.revocations.announce();
  return sequence;
}
