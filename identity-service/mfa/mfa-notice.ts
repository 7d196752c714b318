import type { TransactionSql } from "#kit/database/postgres.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import type { RecordAuditDeps } from "../audit/record-audit.ts";
import { describeOrigin } from "../mail/describe-origin.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { type MakeLinkDeps, makeLink } from "../mail/make-link.ts";
import type { Account, Locked } from "../users/account.ts";

interface MfaNotice {
  template: "mfa-enabled" | "mfa-disabled" | "recovery-codes-renewed";
  from: ClientOrigin;
}

/** With an undo link, because it may be an attacker's change. */
export async function enqueueMfaNotice(
  tx: TransactionSql,
  deps: RecordAuditDeps & MakeLinkDeps,
  { id: userId, email: recipient }: Locked<Account>,
  { template, from }: MfaNotice,
): Promise<void> {
  const link = await makeLink(tx, deps, { userId, purpose: "undo_access_change" });
  const now = deps.now();
  const data = { ...describeOrigin(from, now), link };
  const mail = { id: deps.newId(), userId, recipient };
  await enqueueMail(tx, { ...mail, template, data }, now);
}
