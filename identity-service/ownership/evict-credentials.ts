import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { type RecordAuditDeps, recordAudit } from "../audit/record-audit.ts";
import { deleteOtherIdentities } from "../identities/external-identity-store.ts";
import { deleteFlowsOfUser } from "../identities/oauth-store.ts";
import { deletePasswordChangesOfUser } from "../login/password-change-store.ts";
import { killLinks } from "../mail/link-store.ts";
import { LINK_PURPOSES } from "../mail/links.ts";
import { deleteIdleRecoveryCodes, deleteTotp } from "../mfa/mfa-store.ts";
import { deletePasskeysSince } from "../passkeys/passkey-store.ts";
import { type EndSessionsDeps, owesSessionEnd } from "../sessions/end-sessions.ts";
import type { SessionEnd } from "../sessions/session-end-store.ts";
import type { Account, Locked } from "../users/account.ts";
import { clearCredentialsProof, clearPassword } from "../users/account-store.ts";

export interface Eviction {
  account: Locked<Account>;
  reason: string;
  keptIdentity?: { issuer: string; subject: string };
  /** Older undo links of address changes stay. Default: all expire. */
  undoLinksFrom?: Date;
}

export interface Evicted {
  hadPassword: boolean;
  providers: readonly string[];
  hadSecondFactor: boolean;
  /** How many. */
  passkeys: number;
  /** For `endSessions`, before a new session. */
  end: SessionEnd;
}

/** Removes all access. Call in the transaction that proves the mailbox. */
export async function evictCredentials(
  tx: TransactionSql,
  deps: Pick<EndSessionsDeps, "now" | "newId">,
  { account, reason, keptIdentity, undoLinksFrom: from = new Date(0) }: Eviction,
  context: CallContext,
): Promise<Evicted> {
  const now = deps.now();
  const { id: userId } = account;
  await clearPassword(tx, userId, now);
  await clearCredentialsProof(tx, userId, now);
  const providers = await deleteOtherIdentities(tx, userId, keptIdentity ?? null);
  const hadSecondFactor = await deleteTotp(tx, userId);
  const passkeys = await deletePasskeysSince(tx, userId, new Date(0));
  await deleteIdleRecoveryCodes(tx, userId);
  const others = LINK_PURPOSES.filter((purpose) => purpose !== "undo_email_change");
  await killLinks(tx, { userId, purposes: others, now });
  await killLinks(tx, { userId, purposes: ["undo_email_change"], now, from });
  await deleteFlowsOfUser(tx, userId);
  await deletePasswordChangesOfUser(tx, userId);
  await recordRemoved(tx, deps, { userId, providers, hadSecondFactor, passkeys }, context);
  const end = await owesSessionEnd(tx, deps, { userId, reason });
  return { hadPassword: account.passwordHash !== null, providers, hadSecondFactor, passkeys, end };
}

export async function recordRemoved(
  tx: TransactionSql,
  deps: RecordAuditDeps,
  removed: { userId: string; providers: readonly string[]; hadSecondFactor: boolean; passkeys: number },
  context: CallContext,
): Promise<void> {
  const { userId } = removed;
  for (const reason of removed.providers) {
    await recordAudit(tx, deps, { type: "identity_unlinked", userId, byOwner: true, reason }, context);
  }
  if (removed.hadSecondFactor) {
    await recordAudit(tx, deps, { type: "mfa_disabled", userId, byOwner: true }, context);
  }
  if (removed.passkeys > 0) {
    await recordAudit(tx, deps, { type: "passkey_removed", userId, byOwner: true, reason: "all" }, context);
  }
}
