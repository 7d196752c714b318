import type { CallContext } from "../../service-kit/call-context.ts";
import { type EndSessionsDeps, endSessions } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";

/**
 * Ends the sessions that a change of the second factor has written down. The change is committed and its answer cannot
 * be had again (recovery codes are shown once), so an absent token-service does not take the answer away: the worker
 * goes on with it, and no gateway takes a token for more than seconds without token-service.
 *
 * @returns the ids of the sessions that ended.
 */
export async function endSessionsOfMfaChange(
  deps: EndSessionsDeps,
  end: SessionEnd,
  context: CallContext,
): Promise<readonly string[]> {
  try {
    return await endSessions(deps, end, context);
  } catch (error) {
    deps.logger.warn({ err: error, userId: end.userId }, "sessions not ended yet after a change of mfa");
    return [];
  }
}
