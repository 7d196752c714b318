import { createHash } from "node:crypto";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import { mailboxOf } from "#kit/values/canonical-email.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

type MailKind = "stranger" | "reset";

export interface MailCount {
  kind: MailKind;
  recipient: string;
}

/** Resets are counted by the exact address: a stranger with accounts of its own must not use up those of a mailbox. */
function countedAs({ kind, recipient }: MailCount): string {
  return kind === "stranger" ? mailboxOf(recipient) : recipient;
}

function digestOf(email: string): Buffer {
  return createHash("sha256").update(email).digest();
}

/** Must be the last lock, against deadlocks with account locks. */
export async function lockRecipient(tx: TransactionSql, recipient: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${recipient}, 2))`;
}

/** Counts new notices to unverified addresses. */
export async function isNoticeCounted(
  tx: TransactionSql,
  { id, userId }: { id: string; userId: string },
): Promise<boolean> {
  const rows = await tx`
    select from users
    where id = ${userId} and not email_verified and not exists (select from mail_outbox where id = ${id})
  `;
  return rows.length > 0;
}

/** Oldest first. */
export async function listCountedMails(tx: TransactionSql, which: MailCount, since: Date): Promise<Date[]> {
  const rows = await tx<{ createdAt: Date }[]>`
    select created_at as "createdAt" from counted_mails
    where recipient_digest = ${digestOf(countedAs(which))} and kind = ${which.kind} and created_at > ${since}
    order by created_at
  `;
  return rows.map(({ createdAt }) => createdAt);
}

export async function insertCountedMail(
  tx: TransactionSql,
  mail: MailCount & { id: string; createdAt: Date },
): Promise<void> {
  await tx`
    insert into counted_mails (id, recipient_digest, kind, created_at)
    values (${mail.id}, ${digestOf(countedAs(mail))}, ${mail.kind}, ${mail.createdAt})
    on conflict (id) do nothing
  `;
}

/** Keeps the address from registering, once while its row is kept: nobody must keep it from its owner for good. */
export async function releaseAddress(tx: TransactionSql, email: string, until: Date): Promise<void> {
  await tx`
    insert into released_addresses (email_digest, until) values (${digestOf(email)}, ${until})
    on conflict (email_digest) do nothing
  `;
}

/** Requires the address lock. */
export async function isReleasedLately(tx: TransactionSql, email: string, now: Date): Promise<boolean> {
  const rows = await tx`
    select from released_addresses where email_digest = ${digestOf(email)} and until > ${now}
  `;
  return rows.length > 0;
}

export async function deleteOldCounts(
  sql: Sql,
  which: { countedBefore: Date; limit: number },
): Promise<number> {
  const mails = await sql`
    delete from counted_mails where id = any(array(
      select id from counted_mails where created_at < ${which.countedBefore}
      order by created_at limit ${which.limit} for update skip locked
    ))
  `;
  const addresses = await sql`
    delete from released_addresses where email_digest = any(array(
      select email_digest from released_addresses where until < ${which.countedBefore}
      order by until limit ${which.limit} for update skip locked
    ))
  `;
  return Math.max(mails.count, addresses.count);
}

export async function countMails(
  tx: TransactionSql,
  which: MailCount,
  now: Date,
): Promise<{ lastHour: number; lastDay: number }> {
  await lockRecipient(tx, countedAs(which));
  const mails = await listCountedMails(tx, which, new Date(now.getTime() - DAY_MS));
  const hourAgo = now.getTime() - HOUR_MS;
  return {
    lastHour: mails.filter((createdAt) => createdAt.getTime() > hourAgo).length,
    lastDay: mails.length,
  };
}

const NOTICES = { perHour: 5, perDay: 10 };

/** Limits notices to unverified addresses: a stranger's account could fill the mailbox. */
export async function hasNoticeBudget(
  tx: TransactionSql,
  { id, userId, recipient }: { id: string; userId: string; recipient: string },
  now: Date,
): Promise<boolean> {
  if (!(await isNoticeCounted(tx, { id, userId }))) return true;
  const kind = "stranger";
  const { lastHour, lastDay } = await countMails(tx, { kind, recipient }, now);
  if (lastDay >= NOTICES.perDay || lastHour >= NOTICES.perHour) return false;
  await insertCountedMail(tx, { id, kind, recipient, createdAt: now });
  return true;
}
