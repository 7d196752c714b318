import type { CallContext } from "../../service-kit/call-context.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { type TellAuditDeps, tellAudit } from "../audit/tell-audit.ts";
import { deleteOtherIdentities } from "../identities/external-identity-store.ts";
import { deleteFlowsOfUser } from "../identities/oauth-store.ts";
import { deletePasswordChangesOfUser } from "../login/password-change-store.ts";
import { killLinks } from "../mail/link-store.ts";
import { LINK_PURPOSES } from "../mail/links.ts";
import { deleteSecondFactor } from "../mfa/mfa-store.ts";
import { type EndSessionsDeps, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import { clearCredentialsProof, clearPassword, type LockedAccount } from "../users/account-store.ts";

/** Why an account is evicted, and what stays. */
export interface Eviction {
  /** Of the end of the sessions, as token-service keeps it. */
  reason: string;
  /** The identity that the mailbox's owner has just logged in with, if it is linked already. */
  keptIdentity?: { issuer: string; subject: string };
  /** Links that undo a change of address stay if they were made before. Default: none stays. */
  undoLinksFrom?: Date;
}

/** What somebody could log in with until now. */
export interface Evicted {
  hadPassword: boolean;
  /** Names of the providers whose identities were unlinked. */
  providers: readonly string[];
  hadSecondFactor: boolean;
  /** For `endSessions`, after the commit and before a new session begins. */
  end: SessionEnd;
}

/**
 * Removes everything that anybody has set up to get into an account: password, identities, second factor with its recovery
 * codes, links of mails, logins and changes under way, known devices, and the proof of the credentials. Every session
 * is to end. The account itself, its address and its role stay; nobody can log in before something new is set up.
 *
 * In the transaction that shows who owns the mailbox, under the lock of the account. Whatever reads the account under
 * that lock later finds a new `session_epoch` and no password.
 */
export async function evictCredentials(
  tx: TransactionSql,
  deps: Pick<EndSessionsDeps, "now" | "newId">,
  account: LockedAccount,
  { reason, keptIdentity, undoLinksFrom: from = new Date(0) }: Eviction,
  context: CallContext,
): Promise<Evicted> {
  const now = deps.now();
  const { id: userId } = account;
  await clearPassword(tx, userId, now);
  await clearCredentialsProof(tx, userId, now);
  const providers = await deleteOtherIdentities(tx, userId, keptIdentity ?? null);
  const hadSecondFactor = await deleteSecondFactor(tx, userId);
  const others = LINK_PURPOSES.filter((purpose) => purpose !== "undo_email_change");
  await killLinks(tx, { userId, purposes: others, now });
  await killLinks(tx, { userId, purposes: ["undo_email_change"], now, from });
  await deleteFlowsOfUser(tx, userId);
  await deletePasswordChangesOfUser(tx, userId);
  await tellRemoved(tx, deps, { userId, providers, hadSecondFactor }, context);
  const end = await owesSessionEnd(tx, deps, { userId, reason });
  return { hadPassword: account.passwordHash !== null, providers, hadSecondFactor, end };
}

/** Has the audit log know each way in that an account has lost, in the transaction that takes them. */
export async function tellRemoved(
  tx: TransactionSql,
  deps: TellAuditDeps,
  removed: { userId: string; providers: readonly string[]; hadSecondFactor: boolean },
  context: CallContext,
): Promise<void> {
  const { userId } = removed;
  for (const reason of removed.providers) {
    await tellAudit(tx, deps, { type: "identity_unlinked", userId, byOwner: true, reason }, context);
  }
  if (removed.hadSecondFactor) {
    await tellAudit(tx, deps, { type: "mfa_disabled", userId, byOwner: true }, context);
  }
}
