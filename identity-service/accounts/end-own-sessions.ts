import type { CallContext } from "../../service-kit/call-context.ts";
import { transaction } from "../../service-kit/postgres.ts";
import { type EndSessionsDeps, endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { EndedSessions } from "./reset-password.ts";

/** Also cancels logins in progress. */
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
