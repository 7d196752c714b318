import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { deleteFlowsOfUser } from "../identities/oauth-store.ts";
import { deletePasswordChangesOfUser } from "../login/password-change-store.ts";
import { killLinks } from "../mail/link-store.ts";
import { LINK_PURPOSES } from "../mail/links.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { makeLink } from "../mail/make-link.ts";
import { openLink, useLink } from "../mail/use-link.ts";
import { evictCredentials, recordRemoved } from "../ownership/evict-credentials.ts";
import { removeRecentAccess } from "../ownership/remove-recent-access.ts";
import { endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import type { Account, Locked } from "../users/account.ts";
import { clearPassword } from "../users/account-store.ts";
import type { AccountsDeps } from "./register.ts";
import type { EndedSessions } from "./reset-password.ts";

const REASON = "access_change_undone";

/**
 * The attacker knew the password: removes it and recent credentials, and mails a reset link.
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
    const owed = await removeAccess(tx, deps, { account, createdAt: link.createdAt }, context);
    const { id: userId, email: recipient } = account;
    const data = { link: await makeLink(tx, deps, { userId, purpose: "reset_password" }) };
    const mail = { id: deps.newId(), userId, recipient };
    await enqueueMail(tx, { ...mail, template: "reset-password", data }, deps.now());
    await recordAudit(tx, deps, { type: REASON, userId, byOwner: true }, context);
    return owed;
  });
  deps.wakeMailWorker();
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}

async function removeAccess(
  tx: TransactionSql,
  deps: AccountsDeps,
  { account, createdAt }: { account: Locked<Account>; createdAt: Date },
  context: CallContext,
): Promise<SessionEnd> {
  const { id: userId } = account;
  const now = deps.now();
  // Nothing unproven is known to be the owner's.
  if (account.credentialsProvenAt === null) {
    return (await evictCredentials(tx, deps, { account, reason: REASON, undoLinksFrom: now }, context)).end;
  }
  await clearPassword(tx, userId, now);
  const removed = await removeRecentAccess(tx, userId, createdAt);
  await recordRemoved(tx, deps, { userId, ...removed }, context);
  const others = LINK_PURPOSES.filter((other) => other !== "undo_email_change");
  await killLinks(tx, { userId, purposes: others, now });
  await deleteFlowsOfUser(tx, userId);
  await deletePasswordChangesOfUser(tx, userId);
  return owesSessionEnd(tx, deps, { userId, reason: REASON });
}
