import { type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import { deleteSessionEnd, insertSessionEnd, type SessionEnd } from "./session-end-store.ts";
import type { TokenService } from "./token-service-client.ts";

export interface EndedSessions {
  userId: string;
  sessionIds: readonly string[];
}

export interface EndSessionsDeps {
  sql: Sql;
  tokenService: Pick<TokenService, "revokeUserSessions">;
  now: () => Date;
  newId: () => string;
  logger: Logger;
}

/** Longer than a call, which tries first. */
const FIRST_RETRY_MS = 2_000;

/** Call in the transaction of the cause, and `endSessions` after the commit. The worker takes over after a crash. */
export async function owesSessionEnd(
  tx: TransactionSql,
  deps: Pick<EndSessionsDeps, "now" | "newId">,
  cause: { userId: string; exceptSessionId?: string; reason: string },
): Promise<SessionEnd> {
  const { userId, exceptSessionId = null, reason } = cause;
  const createdAt = deps.now();
  const end = { id: deps.newId(), userId, exceptSessionId, reason, createdAt };
  await insertSessionEnd(tx, end, new Date(createdAt.getTime() + FIRST_RETRY_MS));
  return end;
}

/** Returns the ids of ended sessions. @throws {DomainError} `service_unavailable`; the worker retries. */
export async function endSessions(
  deps: EndSessionsDeps,
  end: SessionEnd,
  context: CallContext,
): Promise<readonly string[]> {
  const { userId, exceptSessionId, reason } = end;
  const ended = await deps.tokenService.revokeUserSessions({ userId, exceptSessionId, reason }, context);
  try {
    await deleteSessionEnd(deps.sql, end.id);
  } catch (error) {
    deps.logger.warn(
      { err: error, userId: end.userId },
      "sessions ended, but not marked as ended; they will be ended again",
    );
  }
  return ended;
}

/** All sessions, or all but one, and logins in progress. */
export async function endOwnSessions(
  deps: EndSessionsDeps,
  { userId, exceptSessionId }: { userId: string; exceptSessionId: string },
  context: CallContext,
): Promise<{ userId: string; sessionIds: readonly string[] }> {
  const kept = exceptSessionId === "" ? {} : { exceptSessionId };
  const end = await transaction(deps.sql, (tx) =>
    owesSessionEnd(tx, deps, { userId, reason: "logout", ...kept }),
  );
  return { userId, sessionIds: await endSessions(deps, end, context) };
}

/** Only logs a failure: the answer cannot be repeated, and the worker retries. */
export async function endSessionsSoon(
  deps: EndSessionsDeps,
  end: SessionEnd,
  context: CallContext,
): Promise<readonly string[]> {
  try {
    return await endSessions(deps, end, context);
  } catch (error) {
    deps.logger.warn({ err: error, userId: end.userId }, "sessions not ended yet; trying again later");
    return [];
  }
}
