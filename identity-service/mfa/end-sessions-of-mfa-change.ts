import type { CallContext } from "#kit/rpc/call-context.ts";
import { type EndSessionsDeps, endSessions } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";

/** Only logs a failure: the answer cannot be repeated, and the worker retries. */
export async function endSessionsOfMfaChange(
  deps: EndSessionsDeps,
  end: SessionEnd,
  context: CallContext,
): Promise<readonly string[]> {
  try {
    return await endSessions(deps, end, context);
  } catch (error) {
    deps.logger.warn(
      { err: error, userId: end.userId },
      "sessions not ended yet after a change of the second factor; trying again later",
    );
    return [];
  }
}
