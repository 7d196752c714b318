import type { CallContext } from "../../service-kit/call-context.ts";
import { linkRefused, openLink, type UseLinkDeps, useLink } from "../mail/use-link.ts";
import { claimAccount } from "../ownership/claim-account.ts";
import { type EndSessionsDeps, endSessions } from "../sessions/end-sessions.ts";
import type { EndedSessions } from "./reset-password.ts";

export interface DisownAccountDeps extends UseLinkDeps, EndSessionsDeps {
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/**
 * Takes an account away from whoever made it with somebody else's address, by the link that was mailed to the address.
 * Nothing opens the account any more, and every session has ended when this resolves; its address can have a password by
 * a reset. An account whose credentials were proven is not touched: a link alone must not remove its second factor.
 *
 * @throws {DomainError} `verification_token_invalid`, `service_unavailable`.
 */
export async function disownAccount(
  deps: DisownAccountDeps,
  request: { token: string; clientIp: string; userAgent: string },
  context: CallContext,
): Promise<EndedSessions> {
  const { token, clientIp, userAgent } = request;
  const link = await openLink(deps, "verify_email", token);
  const { end } = await useLink(deps, "verify_email", link, (tx, account) => {
    if (account.credentialsProvenAt !== null) throw linkRefused("verify_email");
    return claimAccount(tx, deps, account, { by: "account_disowned", clientIp, userAgent }, context);
  });
  deps.wakeMailWorker();
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}
