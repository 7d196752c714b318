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

export interface Eviction {
  reason: string;
  keptIdentity?: { issuer: string; subject: string };
  /** Older undo links of address changes stay valid. Default: all expire. */
  undoLinksFrom?: Date;
}

export interface Evicted {
  hadPassword: boolean;
  providers: readonly string[];
  hadSecondFactor: boolean;
  /** Pass to `endSessions` after the commit and before a new session. */
  end: SessionEnd;
}

/** Removes all access to an account. Call under its lock, in the transaction that proves the mailbox ownership. */
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
