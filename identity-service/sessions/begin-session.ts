import type { CallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import type { Sql } from "../../service-kit/postgres.ts";
import { findUser } from "../users/user-store.ts";
import { findSessionEpoch } from "./session-end-store.ts";
import type { NewSession, SessionTokens, TokenService } from "./token-service-client.ts";

export interface BeginSessionDeps {
  sql: Sql;
  tokenService: TokenService;
}

/**
 * Begins a session for credentials that were checked when the user's `session_epoch` was `epoch`. If sessions were ended
 * since (a new password, a disable), the new one may have come too late to be among them: then it ends here.
 *
 * @throws {DomainError} `invalid_credentials` in that case; `service_unavailable`.
 */
export async function beginSession(
  deps: BeginSessionDeps,
  session: NewSession,
  epoch: number,
  context: CallContext,
): Promise<SessionTokens> {
  const tokens = await deps.tokenService.issueSession(session, context);
  // Read after the session is there: whoever raises the epoch later ends it with the others.
  if ((await findSessionEpoch(deps.sql, session.userId)) === epoch) return tokens;
  const { userId } = session;
  // Of an account that was erased meanwhile, token-service forgets where this login came from.
  const isGone = (await findUser(deps.sql, userId)) === undefined;
  const reason = isGone ? "account_deleted" : "credentials_changed";
  await deps.tokenService.revokeSession({ sessionId: tokens.sessionId, userId, reason }, context);
  throw new DomainError("invalid_credentials");
}
