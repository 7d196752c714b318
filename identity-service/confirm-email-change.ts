import type { CallContext } from "../service-kit/call-context.ts";
import { orUnavailable } from "../service-kit/postgres.ts";
import { setEmail } from "./account-store.ts";
import { getUser } from "./get-user.ts";
import { inUtc } from "./in-utc.ts";
import { findOwnUndo, killLinks } from "./link-store.ts";
import { enqueueMail } from "./mail-outbox-store.ts";
import { type MakeLinkDeps, makeLink } from "./make-link.ts";
import { tellAudit } from "./tell-audit.ts";
import { linkRefused, openLink, type UseLinkDeps, useLink } from "./use-link.ts";
import type { User } from "./user.ts";
import { lockAddresses } from "./user-store.ts";

export interface ConfirmEmailChangeDeps extends UseLinkDeps, MakeLinkDeps {
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/**
 * Changes a user's address to the one that the link was mailed to. What was mailed to the old address is good for
 * nothing any more, but for a link that undoes the change, which goes there now: 7 days, until which nobody else gets
 * the old address.
 *
 * @throws {DomainError} `verification_token_invalid`, also if somebody else has the address by now;
 *   `service_unavailable`.
 */
export async function confirmEmailChange(
  deps: ConfirmEmailChangeDeps,
  token: string,
  context: CallContext,
): Promise<User> {
  const link = await orUnavailable(openLink(deps, "confirm_email_change", token));
  await orUnavailable(
    useLink(deps, "confirm_email_change", link, async (tx, { id: userId, email: oldEmail }) => {
      const now = deps.now();
      const { newEmail } = link;
      await lockAddresses(tx, [oldEmail, newEmail ?? oldEmail]);
      const isFree = newEmail !== null && (await setEmail(tx, { userId, email: newEmail, at: now }));
      if (!isFree) throw linkRefused("confirm_email_change");
      await killLinks(tx, {
        userId,
        purposes: ["verify_email", "reset_password", "confirm_email_change"],
        now,
      });
      await tellAudit(tx, deps, { type: "email_changed", userId, byOwner: true }, context);
      // Back to an address that was left: what was changed since is undone, and nobody gets a way back to it.
      const leftAt = await findOwnUndo(tx, { userId, email: newEmail, now });
      if (leftAt !== undefined) {
        await killLinks(tx, { userId, purposes: ["undo_email_change"], now, from: leftAt });
        return;
      }
      const undo = await makeLink(tx, deps, { userId, purpose: "undo_email_change", newEmail: oldEmail });
      const data = { link: undo, occurredAt: inUtc(now) };
      const mail = { id: deps.newId(), userId, recipient: oldEmail };
      await enqueueMail(tx, { ...mail, template: "email-changed", data }, now);
    }),
  );
  deps.wakeMailWorker();
  return getUser(deps, link.userId);
}
