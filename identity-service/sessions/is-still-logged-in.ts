import type { CallContext } from "../../service-kit/call-context.ts";
import type { TokenService } from "./token-service-client.ts";

/** Whether the session that began a change still exists. Null: nobody was logged in. */
export async function isStillLoggedIn(
  deps: { tokenService: Pick<TokenService, "isSessionLive"> },
  { userId, sessionId }: { userId: string; sessionId: string | null },
  context: CallContext,
): Promise<boolean> {
  return sessionId === null || deps.tokenService.isSessionLive({ userId, sessionId }, context);
}
