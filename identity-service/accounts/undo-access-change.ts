import type { CallContext } from "../../service-kit/call-context.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { tellAudit } from "../audit/tell-audit.ts";
import { deleteFlowsOfUser } from "../identities/oauth-store.ts";
import { deletePasswordChangesOfUser } from "../login/password-change-store.ts";
import { killLinks, type OpenLink } from "../mail/link-store.ts";
import { LINK_PURPOSES } from "../mail/links.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { makeLink } from "../mail/make-link.ts";
import { openLink, useLink } from "../mail/use-link.ts";
import { evictCredentials, tellRemoved } from "../ownership/evict-credentials.ts";
import { removeRecentAccess } from "../ownership/remove-recent-access.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { clearPassword, type LockedAccount } from "../users/account-store.ts";
import type { AccountsDeps } from "./accounts-deps.ts";
import type { EndedSessions } from "./reset-password.ts";

const REASON = "access_change_undone";

/**
 * Reverts a new second factor or identity. As the attacker knew the password, this removes the password and recent
 * credentials and mails a reset link. Undo links of address changes stay valid.
 * @throws {DomainError} `verification_token_invalid`.
 */
export async function undoAccessChange(
  deps: AccountsDeps,
  token: string,
  context: CallContext,
): Promise<EndedSessions> {
  const purpose = "undo_access_change";
  const link = await openLink(deps, purpose, token);
  const end = await useLink(deps, purpose, link, async (tx, account) => {
    const owed = await removeAccess(tx, deps, account, link, context);
    const { id: userId, email: recipient } = account;
    const data = { link: await makeLink(tx, deps, { userId, purpose: "reset_password" }) };
    const mail = { id: deps.newId(), userId, recipient };
    await enqueueMail(tx, { ...mail, template: "reset-password", data }, deps.now());
    await tellAudit(tx, deps, { type: REASON, userId, byOwner: true }, context);
    return owed;
  });
  deps.wakeMailWorker();
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}

async function removeAccess(
  tx: TransactionSql,
  deps: AccountsDeps,
  account: LockedAccount,
  { createdAt }: OpenLink,
  context: CallContext,
): Promise<SessionEnd> {
  const { id: userId } = account;
  const now = deps.now();
  // Nothing of an unproven account is known to belong to its owner.
  if (account.credentialsProvenAt === null) {
    return (await evictCredentials(tx, deps, account, { reason: REASON, undoLinksFrom: now }, context)).end;
  }
  await clearPassword(tx, userId, now);
  const removed = await removeRecentAccess(tx, userId, createdAt);
  await tellRemoved(tx, deps, { userId, ...removed }, context);
  const others = LINK_PURPOSES.filter((other) => other !== "undo_email_change");
  await killLinks(tx, { userId, purposes: others, now });
  await deleteFlowsOfUser(tx, userId);
  await deletePasswordChangesOfUser(tx, userId);
  return owesSessionEnd(tx, deps, { userId, reason: REASON });
}
