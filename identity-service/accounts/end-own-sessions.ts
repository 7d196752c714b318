import type { CallContext } from "../../service-kit/call-context.ts";
import { transaction } from "../../service-kit/postgres.ts";
import { type EndSessionsDeps, endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { EndedSessions } from "./reset-password.ts";

/**
 * Ends all sessions of a user except `exceptSessionId`, and cancels logins in progress.
 * @throws {DomainError} `service_unavailable`. Once committed, the sessions end when token-service is back.
 */
export async function endOwnSessions(
  deps: EndSessionsDeps,
  { userId, exceptSessionId }: { userId: string; exceptSessionId: string },
  context: CallContext,
): Promise<EndedSessions> {
  const kept = exceptSessionId === "" ? {} : { exceptSessionId };
  const end = await transaction(deps.sql, (tx) =>
    owesSessionEnd(tx, deps, { userId, reason: "logout", ...kept }),
  );
  return { userId, sessionIds: await endSessions(deps, end, context) };
}
