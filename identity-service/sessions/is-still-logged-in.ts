import type { CallContext } from "../../service-kit/call-context.ts";
import type { TokenService } from "./token-service-client.ts";

export interface IsStillLoggedInDeps {
  tokenService: Pick<TokenService, "isSessionLive">;
}

/**
 * Whether the session in which a change was begun has not ended since, in whatever way. A change that a mail or a provider
 * completes later outlives the call that began it; it must not outlive the session.
 *
 * @param began `sessionId` null: an older version began it and did not tell; then nothing can be asked.
 * @throws {DomainError} `service_unavailable`.
 */
export async function isStillLoggedIn(
  deps: IsStillLoggedInDeps,
  { userId, sessionId }: { userId: string; sessionId: string | null },
  context: CallContext,
): Promise<boolean> {
  return sessionId === null || deps.tokenService.isSessionLive({ userId, sessionId }, context);
}
