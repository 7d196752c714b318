import type { TransactionSql } from "#kit/database/postgres.ts";
import { DomainError } from "#kit/values/errors.ts";
import { killLinks } from "../mail/link-store.ts";
import { enqueueStrangersMail } from "../mail/mail-budget.ts";
import { enqueueMail } from "../mail/mail-outbox-store.ts";
import { hasHadEnough, makeLink } from "../mail/make-link.ts";
import type { Account } from "../users/account.ts";
import { isAddressTaken } from "../users/account-store.ts";
import type { AdminDeps } from "./authorize.ts";
import { MAIL_LIMIT } from "./invite-user.ts";

/**
 * Mails a link to a new address, whose reader needs neither password nor session, and a notice to the present one. Nothing
 * else changes before the link is used: an address that nobody confirmed would leave the account to the next reset.
 * Requires the account lock.
 * @throws {DomainError} `email_already_registered`, `conflict`.
 */
export async function vouchForEmail(
  tx: TransactionSql,
  deps: AdminDeps,
  account: Pick<Account, "id" | "email" | "emailVerified" | "status">,
  newEmail: string,
): Promise<void> {
  const now = deps.now();
  const { id: userId, email: presentEmail } = account;
  if (account.status !== "active") throw new DomainError("conflict", "The account is disabled.");
  if (await isAddressTaken(tx, { userId, email: newEmail, now }))
    throw new DomainError("email_already_registered");
  const wanted = { userId, purpose: "confirm_email_change", newEmail, isVouched: true } as const;
  if (await hasHadEnough(tx, deps, wanted)) throw new DomainError("conflict", MAIL_LIMIT);
  const link = await makeLink(tx, deps, wanted);
  const mail = { id: deps.newId(), userId, recipient: newEmail };
  const isMade = await enqueueStrangersMail(tx, deps, {
    ...mail,
    template: "confirm-vouched-email",
    data: { link },
  });
  if (!isMade) throw new DomainError("conflict", MAIL_LIMIT);
  // An address that nobody confirmed may be a stranger's.
  if (!account.emailVerified) return;
  const notice = { id: deps.newId(), userId, recipient: presentEmail };
  const data = { occurredAt: now.toISOString() };
  await enqueueMail(tx, { ...notice, template: "email-change-begun", data }, now);
}

/** What an administrator vouched for holds only while the account is as it was. */
export async function endVouching(tx: TransactionSql, userId: string, now: Date): Promise<void> {
  await killLinks(tx, { userId, purposes: ["confirm_email_change"], now });
}
