import type { CallContext } from "#kit/rpc/call-context.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { linkRefused, openLink, useLink } from "../mail/use-link.ts";
import { claimAccount } from "../ownership/claim-account.ts";
import { endSessions } from "../sessions/end-sessions.ts";
import type { AccountsDeps } from "./accounts-deps.ts";
import type { EndedSessions } from "./reset-password.ts";

/**
 * Refused for proven credentials: a link alone must not remove a second factor.
 * @throws {DomainError} `verification_token_invalid`.
 */
export async function disownAccount(
  deps: AccountsDeps,
  request: ClientOrigin & { token: string },
  context: CallContext,
): Promise<EndedSessions> {
  const { token, clientIp, userAgent } = request;
  const link = await openLink(deps, "verify_email", token);
  const { end } = await useLink(deps, "verify_email", link, (tx, account) => {
    if (account.credentialsProvenAt !== null) throw linkRefused("verify_email");
    return claimAccount(tx, deps, { account, by: "account_disowned", clientIp, userAgent }, context);
  });
  deps.wakeMailWorker();
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}
