import type { CallContext } from "../service-kit/call-context.ts";
import { orUnavailable } from "../service-kit/postgres.ts";
import { clearPassword, setEmail } from "./account-store.ts";
import { type EndSessionsDeps, endSessions, owesSessionEnd } from "./end-sessions.ts";
import { deleteIdentitiesSince } from "./external-identity-store.ts";
import { killLinks } from "./link-store.ts";
import { LINK_PURPOSES } from "./links.ts";
import { enqueueMail } from "./mail-outbox-store.ts";
import { type MakeLinkDeps, makeLink } from "./make-link.ts";
import { deleteSecondFactor, findTotpCredential } from "./mfa-store.ts";
import type { EndedSessions } from "./reset-password.ts";
import { tellAudit } from "./tell-audit.ts";
import { linkRefused, openLink, type UseLinkDeps, useLink } from "./use-link.ts";
import { lockAddresses } from "./user-store.ts";

export interface UndoEmailChangeDeps extends UseLinkDeps, EndSessionsDeps, MakeLinkDeps {
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/**
 * Gives a user the address back that the link was mailed to. Whoever changed the address may not have been the user:
 * every session has ended when this resolves, the password is gone and a link to set another is on its way to the
 * address, and a second factor that was set up since is off, a provider that was linked since does not log in. Other links die, but for those that undo an earlier change.
 *
 * @throws {DomainError} `verification_token_invalid`, `service_unavailable`.
 */
export async function undoEmailChange(
  deps: UndoEmailChangeDeps,
  token: string,
  context: CallContext,
): Promise<EndedSessions> {
  const purpose = "undo_email_change";
  const link = await orUnavailable(openLink(deps, purpose, token));
  const end = await orUnavailable(
    useLink(deps, purpose, link, async (tx, { id: userId, email: presentEmail }) => {
      const now = deps.now();
      await lockAddresses(tx, [presentEmail, link.newEmail ?? presentEmail]);
      const isFree =
        link.newEmail !== null && (await setEmail(tx, { userId, email: link.newEmail, at: now }));
      if (!isFree) throw linkRefused(purpose);
      const others = LINK_PURPOSES.filter((other) => other !== purpose);
      await killLinks(tx, { userId, purposes: others, now });
      await killLinks(tx, { userId, purposes: [purpose], now, from: link.createdAt });
      // Whoever changed the address knew the password, and may have set up a second factor or linked a provider.
      await clearPassword(tx, userId, now);
      const credential = await findTotpCredential(tx, userId);
      if (credential?.confirmedAt != null && credential.confirmedAt >= link.createdAt) {
        await deleteSecondFactor(tx, userId);
      }
      await deleteIdentitiesSince(tx, userId, link.createdAt);
      const data = { link: await makeLink(tx, deps, { userId, purpose: "reset_password" }) };
      const mail = { id: deps.newId(), userId, recipient: link.newEmail ?? "" };
      await enqueueMail(tx, { ...mail, template: "reset-password", data }, now);
      await tellAudit(tx, deps, { type: "email_change_undone", userId, byOwner: true }, context);
      return owesSessionEnd(tx, deps, { userId, reason: "email_change_undone" });
    }),
  );
  deps.wakeMailWorker();
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}
