import type { TransactionSql } from "#kit/database/postgres.ts";
import { insertCountedMail, isNoticeCounted, listCountedMails, lockRecipient } from "./mail-budget-store.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const PER_HOUR = 5;
const PER_DAY = 10;

/** Limits notices to unverified addresses: a stranger's account could fill the mailbox. */
export async function hasNoticeBudget(
  tx: TransactionSql,
  { id, userId, recipient }: { id: string; userId: string; recipient: string },
  now: Date,
): Promise<boolean> {
  if (!(await isNoticeCounted(tx, { id, userId }))) return true;
  await lockRecipient(tx, recipient);
  const kind = "stranger";
  const mails = await listCountedMails(tx, { kind, recipient }, new Date(now.getTime() - DAY_MS));
  const lastHour = mails.filter((createdAt) => createdAt.getTime() > now.getTime() - HOUR_MS);
  if (mails.length >= PER_DAY || lastHour.length >= PER_HOUR) return false;
  await insertCountedMail(tx, { id, kind, recipient, createdAt: now });
  return true;
}
