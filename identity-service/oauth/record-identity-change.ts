import type { TransactionSql } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { type RecordAuditDeps, recordAudit } from "../audit/record-audit.ts";
import { describeOrigin } from "../mail/describe-origin.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { type MakeLinkDeps, makeLink } from "../mail/make-link.ts";

export interface IdentityChange {
  userId: string;
  email: string;
  provider: { name: string; displayName: string };
  change: "linked" | "unlinked";
  origin: ClientOrigin;
}

/** Call in the transaction of the change. */
export async function recordIdentityChange(
  tx: TransactionSql,
  deps: RecordAuditDeps & MakeLinkDeps,
  { userId, email: recipient, provider, change, origin }: IdentityChange,
  context: CallContext,
): Promise<void> {
  const now = deps.now();
  const data = { provider: provider.displayName, ...describeOrigin(origin, now) };
  const mail = { id: deps.newId(), userId, recipient };
  if (change === "linked") {
    const link = await makeLink(tx, deps, { userId, purpose: "undo_access_change" });
    await enqueueMail(tx, { ...mail, template: "identity-linked", data: { ...data, link } }, now);
  } else {
    await enqueueMail(tx, { ...mail, template: "identity-unlinked", data }, now);
  }
  const type = `identity_${change}` as const;
  const { clientIp, userAgent } = origin;
  const event = { type, userId, byOwner: true, reason: provider.name, clientIp, userAgent };
  await recordAudit(tx, deps, event, context);
}
