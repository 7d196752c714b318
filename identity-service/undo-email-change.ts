import type { CallContext } from "../service-kit/call-context.ts";
import { orUnavailable } from "../service-kit/postgres.ts";
import { setEmail } from "./account-store.ts";
import { type EndSessionsDeps, endSessions, owesSessionEnd } from "./end-sessions.ts";
import { killLinks } from "./link-store.ts";
import { LINK_PURPOSES } from "./links.ts";
import type { EndedSessions } from "./reset-password.ts";
import { linkRefused, openLink, type UseLinkDeps, useLink } from "./use-link.ts";

/**
 * Gives a user the address back that the link was mailed to. Every session has ended when this resolves: whoever
 * changed the address may not have been the user. Other links die, but for those that undo an earlier change.
 *
 * @throws {DomainError} `verification_token_invalid`, `service_unavailable`.
 */
export async function undoEmailChange(
  deps: UseLinkDeps & EndSessionsDeps,
  token: string,
  context: CallContext,
): Promise<EndedSessions> {
  const purpose = "undo_email_change";
  const link = await orUnavailable(openLink(deps, purpose, token));
  const end = await orUnavailable(
    useLink(deps, purpose, link, async (tx, { id: userId }) => {
      const now = deps.now();
      const isFree =
        link.newEmail !== null && (await setEmail(tx, { userId, email: link.newEmail, at: now }));
      if (!isFree) throw linkRefused(purpose);
      const others = LINK_PURPOSES.filter((other) => other !== purpose);
      await killLinks(tx, { userId, purposes: others, now });
      await killLinks(tx, { userId, purposes: [purpose], now, from: link.createdAt });
      return owesSessionEnd(tx, deps, { userId, reason: "email_change_undone" });
    }),
  );
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}
