import type { CallContext } from "../../service-kit/call-context.ts";
import type { TransactionSql } from "../../service-kit/postgres.ts";
import { type TellAuditDeps, tellAudit } from "../audit/tell-audit.ts";
import { describeBrowser } from "../mail/describe-browser.ts";
import { inUtc } from "../mail/in-utc.ts";
import { knownAddress } from "../mail/known-address.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { type MakeLinkDeps, makeLink } from "../mail/make-link.ts";
import type { CallOrigin } from "./oauth-deps.ts";

export interface IdentityChange {
  userId: string;
  email: string;
  provider: { name: string; displayName: string };
  change: "linked" | "unlinked";
}

/** Call in the transaction of the change. A new identity comes with an undo link. */
export async function tellIdentityChange(
  tx: TransactionSql,
  deps: TellAuditDeps & MakeLinkDeps,
  { userId, email: recipient, provider, change }: IdentityChange,
  { clientIp, userAgent }: CallOrigin,
  context: CallContext,
): Promise<void> {
  const now = deps.now();
  const data = {
    provider: provider.displayName,
    occurredAt: inUtc(now),
    ip: knownAddress(clientIp),
    browser: describeBrowser(userAgent),
  };
  const mail = { id: deps.newId(), userId, recipient };
  if (change === "linked") {
    const link = await makeLink(tx, deps, { userId, purpose: "undo_access_change" });
    await enqueueMail(tx, { ...mail, template: "identity-linked", data: { ...data, link } }, now);
  } else {
    await enqueueMail(tx, { ...mail, template: "identity-unlinked", data }, now);
  }
  const type = `identity_${change}` as const;
  await tellAudit(
    tx,
    deps,
    { type, userId, byOwner: true, reason: provider.name, clientIp, userAgent },
    context,
  );
}
