import type { TransactionSql } from "../../service-kit/postgres.ts";
import type { TellAuditDeps } from "../audit/tell-audit.ts";
import { describeBrowser } from "../mail/describe-browser.ts";
import { inUtc } from "../mail/in-utc.ts";
import { knownAddress } from "../mail/known-address.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { type MakeLinkDeps, makeLink } from "../mail/make-link.ts";
import type { TypedCode } from "./mfa-deps.ts";
import type { LockedUser } from "./mfa-store.ts";

export async function enqueueMfaNotice(
  tx: TransactionSql,
  deps: TellAuditDeps,
  user: LockedUser,
  template: "mfa-disabled" | "recovery-codes-renewed",
  from: Pick<TypedCode, "clientIp" | "userAgent">,
): Promise<void> {
  const data = noticeOf(deps, from);
  const mail = { id: deps.newId(), userId: user.id, recipient: user.email };
  await enqueueMail(tx, { ...mail, template, data }, deps.now());
}

/** The mail contains an undo link, because an attacker may have enabled it. */
export async function enqueueMfaEnabled(
  tx: TransactionSql,
  deps: TellAuditDeps & MakeLinkDeps,
  { id: userId, email: recipient }: LockedUser,
  from: Pick<TypedCode, "clientIp" | "userAgent">,
): Promise<void> {
  const link = await makeLink(tx, deps, { userId, purpose: "undo_access_change" });
  const data = { ...noticeOf(deps, from), link };
  const mail = { id: deps.newId(), userId, recipient };
  await enqueueMail(tx, { ...mail, template: "mfa-enabled", data }, deps.now());
}

function noticeOf(deps: TellAuditDeps, { clientIp, userAgent }: Pick<TypedCode, "clientIp" | "userAgent">) {
  return { occurredAt: inUtc(deps.now()), ip: knownAddress(clientIp), browser: describeBrowser(userAgent) };
}
