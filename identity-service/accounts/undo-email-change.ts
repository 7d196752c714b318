import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { deleteFlowsOfUser } from "../identities/oauth-store.ts";
import { killLinks } from "../mail/link-store.ts";
import { LINK_PURPOSES } from "../mail/links.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { makeLink } from "../mail/make-link.ts";
import { linkRefused, openLink, useLink } from "../mail/use-link.ts";
import { evictCredentials, recordRemoved } from "../ownership/evict-credentials.ts";
import { removeRecentAccess } from "../ownership/remove-recent-access.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { clearPassword, setCredentialsProven, setEmail } from "../users/account-store.ts";
import { lockAddresses } from "../users/user-store.ts";
import type { AccountsDeps } from "./register.ts";
import type { EndedSessions } from "./reset-password.ts";

const REASON = "email_change_undone";

/**
 * Removes the password too and mails a reset link. Older second factors and identities stay if the credentials were
 * proven with that address.
 * @throws {DomainError} `verification_token_invalid`.
 */
export async function undoEmailChange(
  deps: AccountsDeps,
  token: string,
  context: CallContext,
): Promise<EndedSessions> {
  const purpose = "undo_email_change";
  const link = await openLink(deps, purpose, token);
  const end = await useLink(deps, purpose, link, async (tx, account) => {
    const { id: userId, email: presentEmail } = account;
    const now = deps.now();
    const oldEmail = link.newEmail ?? presentEmail;
    await lockAddresses(tx, [presentEmail, oldEmail]);
    if (!(await setEmail(tx, { userId, email: oldEmail, at: now }))) throw linkRefused(purpose);
    const owed = link.areCredentialsProven
      ? await removeSince(tx, deps, { userId, since: link.createdAt }, context)
      : (
          await evictCredentials(
            tx,
            deps,
            { account, reason: REASON, undoLinksFrom: link.createdAt },
            context,
          )
        ).end;
    const data = { link: await makeLink(tx, deps, { userId, purpose: "reset_password" }) };
    const mail = { id: deps.newId(), userId, recipient: oldEmail };
    await enqueueMail(tx, { ...mail, template: "reset-password", data }, now);
    await recordAudit(tx, deps, { type: "email_change_undone", userId, byOwner: true }, context);
    return owed;
  });
  deps.wakeMailWorker();
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}

async function removeSince(
  tx: TransactionSql,
  deps: AccountsDeps,
  { userId, since }: { userId: string; since: Date },
  context: CallContext,
): Promise<SessionEnd> {
  const now = deps.now();
  const others = LINK_PURPOSES.filter((other) => other !== "undo_email_change");
  await killLinks(tx, { userId, purposes: others, now });
  await killLinks(tx, { userId, purposes: ["undo_email_change"], now, from: since });
  await clearPassword(tx, userId, now);
  const removed = await removeRecentAccess(tx, userId, since);
  await recordRemoved(tx, deps, { userId, ...removed }, context);
  await deleteFlowsOfUser(tx, userId);
  await setCredentialsProven(tx, userId, now);
  return owesSessionEnd(tx, deps, { userId, reason: REASON });
}
