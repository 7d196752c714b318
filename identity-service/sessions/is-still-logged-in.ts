import type { CallContext } from "#kit/rpc/call-context.ts";
import type { TokenService } from "./token-service-client.ts";

/** Whether the session in which a change began still exists. A change that began outside of a session has none, and goes on. */
export async function isStillLoggedIn(
  deps: { tokenService: Pick<TokenService, "isSessionLive"> },
  { userId, sessionId }: { userId: string; sessionId: string | null },
  context: CallContext,
): Promise<boolean> {
  return sessionId === null || deps.tokenService.isSessionLive({ userId, sessionId }, context);
}
