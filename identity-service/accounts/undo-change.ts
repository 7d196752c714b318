import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { deleteFlowsOfUser } from "../identities/oauth-store.ts";
import { deletePasswordChangesOfUser } from "../login/password-change-store.ts";
import { killLinks } from "../mail/link-store.ts";
import { LINK_PURPOSES } from "../mail/links.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { makeLink } from "../mail/make-link.ts";
import { linkRefused, openLink, useLink } from "../mail/use-link.ts";
import { evictCredentials, recordRemoved } from "../ownership/evict-credentials.ts";
import { removeRecentAccess } from "../ownership/remove-recent-access.ts";
import { type EndedSessions, endSessions, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import type { Account, Locked } from "../users/account.ts";
import { clearPassword, setCredentialsProven, setEmail } from "../users/account-store.ts";
import { lockAddresses } from "../users/user-store.ts";
import type { AccountsDeps } from "./register.ts";

interface Undoing {
  account: Locked<Account>;
  /** Of the change. */
  since: Date;
}

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
    const owed = await removeAccess(tx, deps, { account, since: link.createdAt }, context);
    const { id: userId, email: recipient } = account;
    await mailReset(tx, deps, { userId, recipient });
    await recordAudit(tx, deps, { type: "access_change_undone", userId, byOwner: true }, context);
    return owed;
  });
  deps.wakeMailWorker();
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}

async function removeAccess(
  tx: TransactionSql,
  deps: AccountsDeps,
  { account, since }: Undoing,
  context: CallContext,
): Promise<SessionEnd> {
  const reason = "access_change_undone";
  // Nothing unproven is known to be the owner's.
  if (account.credentialsProvenAt === null) {
    return (await evictCredentials(tx, deps, { account, reason, undoLinksFrom: deps.now() }, context)).end;
  }
  await removeSince(tx, deps, { account, since }, context);
  await deletePasswordChangesOfUser(tx, account.id);
  return owesSessionEnd(tx, deps, { userId: account.id, reason });
}

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
    const oldEmail = link.newEmail ?? presentEmail;
    await lockAddresses(tx, [presentEmail, oldEmail]);
    if (!(await setEmail(tx, { userId, email: oldEmail, at: deps.now() }))) throw linkRefused(purpose);
    const { areCredentialsProven, createdAt: since } = link;
    const owed = await removeFormer(tx, deps, { account, since, areCredentialsProven }, context);
    await mailReset(tx, deps, { userId, recipient: oldEmail });
    await recordAudit(tx, deps, { type: "email_change_undone", userId, byOwner: true }, context);
    return owed;
  });
  deps.wakeMailWorker();
  return { userId: link.userId, sessionIds: await endSessions(deps, end, context) };
}

async function removeFormer(
  tx: TransactionSql,
  deps: AccountsDeps,
  { account, since, areCredentialsProven }: Undoing & { areCredentialsProven: boolean },
  context: CallContext,
): Promise<SessionEnd> {
  const reason = "email_change_undone";
  if (!areCredentialsProven) {
    return (await evictCredentials(tx, deps, { account, reason, undoLinksFrom: since }, context)).end;
  }
  const { id: userId } = account;
  const now = deps.now();
  await killLinks(tx, { userId, purposes: ["undo_email_change"], now, from: since });
  await removeSince(tx, deps, { account, since }, context);
  await setCredentialsProven(tx, userId, now);
  return owesSessionEnd(tx, deps, { userId, reason });
}

/** The password, links and what is as young as the change. */
async function removeSince(
  tx: TransactionSql,
  deps: AccountsDeps,
  { account: { id: userId }, since }: Undoing,
  context: CallContext,
): Promise<void> {
  const now = deps.now();
  await clearPassword(tx, userId, now);
  const removed = await removeRecentAccess(tx, userId, since);
  await recordRemoved(tx, deps, { userId, ...removed }, context);
  const others = LINK_PURPOSES.filter((other) => other !== "undo_email_change");
  await killLinks(tx, { userId, purposes: others, now });
  await deleteFlowsOfUser(tx, userId);
}

async function mailReset(
  tx: TransactionSql,
  deps: AccountsDeps,
  owner: { userId: string; recipient: string },
): Promise<void> {
  const data = { link: await makeLink(tx, deps, { userId: owner.userId, purpose: "reset_password" }) };
  await enqueueMail(tx, { id: deps.newId(), ...owner, template: "reset-password", data }, deps.now());
}
