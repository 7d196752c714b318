import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { type RecordAuditDeps, recordAudit } from "../audit/record-audit.ts";
import { describeOrigin } from "../mail/describe-origin.ts";
import { noticeId } from "../mail/mail.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { type MakeLinkDeps, makeLink } from "../mail/make-link.ts";
import type { Account } from "../users/account.ts";
import type { Passkey } from "./passkey-store.ts";

interface Change {
  user: Pick<Account, "id" | "email">;
  from: ClientOrigin;
}

/** The mails never have the passkey's name: who took a session over would write in our mail. */
export async function recordPasskeyAdded(
  tx: TransactionSql,
  deps: RecordAuditDeps & MakeLinkDeps,
  { user, from }: Change,
  context: CallContext,
): Promise<void> {
  const { id: userId, email: recipient } = user;
  const link = await makeLink(tx, deps, { userId, purpose: "undo_access_change" });
  const now = deps.now();
  const data = { ...describeOrigin(from, now), link };
  await enqueueMail(tx, { id: deps.newId(), userId, recipient, template: "passkey-added", data }, now);
  await recordAudit(tx, deps, { type: "passkey_added", ...eventOf({ user, from }) }, context);
}

/** `act` is that of somebody else than the owner. */
export async function recordPasskeyRemoved(
  tx: TransactionSql,
  deps: RecordAuditDeps & MakeLinkDeps,
  { user, from, passkey, act }: Change & { passkey: Passkey; act?: { reason: string } },
  context: CallContext,
): Promise<void> {
  const { id: userId, email: recipient } = user;
  const link = await makeLink(tx, deps, { userId, purpose: "undo_access_change" });
  const now = deps.now();
  const data = { ...describeOrigin(from, now), addedAt: passkey.createdAt.toISOString(), link };
  await enqueueMail(tx, { id: deps.newId(), userId, recipient, template: "passkey-removed", data }, now);
  const by = act === undefined ? {} : { byOwner: false, reason: act.reason };
  await recordAudit(tx, deps, { type: "passkey_removed", ...eventOf({ user, from }), ...by }, context);
}

/** At most one mail an hour. No actor: the authenticator may be a copy. */
export async function recordCounterRefused(
  tx: TransactionSql,
  deps: RecordAuditDeps,
  { user, from, passkey }: Change & { passkey: Passkey },
  context: CallContext,
): Promise<void> {
  const { id: userId, email: recipient } = user;
  const now = deps.now();
  const template = "passkey-refused";
  const data = { ...describeOrigin(from, now), addedAt: passkey.createdAt.toISOString() };
  await enqueueMail(tx, { id: noticeId(template, userId, now), userId, recipient, template, data }, now);
  const { clientIp, userAgent } = from;
  const refusal = { reason: "sign_count", errorCode: "passkey_invalid" } as const;
  await recordAudit(tx, deps, { type: "passkey_refused", userId, clientIp, userAgent, ...refusal }, context);
}

function eventOf({ user, from: { clientIp, userAgent } }: Change) {
  return { userId: user.id, byOwner: true, clientIp, userAgent };
}
