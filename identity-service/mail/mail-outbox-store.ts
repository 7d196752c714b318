import { type Claim, claimDue } from "#kit/database/outbox-store.ts";
import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { Reader } from "../users/reader-fields.ts";
import type { MailName, MailValue, NewMail, StrangersMail } from "./mail.ts";
import { hasNoticeBudget } from "./mail-budget-store.ts";

/** The reader is as the account is at the time of sending, so that a mail that waits follows a change of language. */
export interface ClaimedMail extends Reader {
  id: string;
  template: MailName;
  recipient: string;
  data: Record<string, MailValue>;
  /** Includes this one, and so identifies the lease. */
  attempts: number;
}

export interface MailClaim extends Claim {
  /** Older mails are given up. */
  createdAfter: Date;
  /** Others wait for the version that knows their template. */
  templates: readonly MailName[];
}

export interface GivenUpMail {
  id: string;
  template: string;
  attempts: number;
  lastError: string | null;
}

/**
 * Call in the transaction of the cause. Mails to unverified addresses are limited: the mailbox may be a stranger's.
 * @returns false above the limit, or if this cause's mail is there, sent or not.
 */
export async function enqueueMail(
  tx: TransactionSql,
  mail: Exclude<NewMail, StrangersMail>,
  now: Date,
): Promise<boolean> {
  return (await hasNoticeBudget(tx, mail, now)) && insertMail(tx, mail, now);
}

/** For mails that are counted, or need not be. */
export async function insertMail(tx: TransactionSql, mail: NewMail, now: Date): Promise<boolean> {
  const result = await tx`
    insert into mail_outbox (id, user_id, template, recipient, data, created_at, next_attempt_at)
    values (${mail.id}, ${mail.userId}, ${mail.template}, ${mail.recipient}, ${tx.json({ ...mail.data } as Parameters<typeof tx.json>[0])}, ${now}, ${now})
    on conflict (id) do nothing
  `;
  return result.count === 1;
}

/** Sent or not. */
export async function hasMail(tx: TransactionSql, id: string): Promise<boolean> {
  const [row] = await tx<{ isThere: boolean }[]>`
    select exists (select from mail_outbox where id = ${id}) as "isThere"
  `;
  return row?.isThere === true;
}

/** An unsent mail, so that its commit takes as long as one with a mail. */
export async function insertUnsentMail(
  tx: TransactionSql,
  mail: { id: string; userId: string; template: MailName },
  now: Date,
): Promise<void> {
  await tx`
    insert into mail_outbox (id, user_id, template, created_at, next_attempt_at, given_up_at)
    values (${mail.id}, ${mail.userId}, ${mail.template}, ${now}, ${now}, ${now})
  `;
}

export function claimDueMails(
  sql: Sql,
  { createdAfter, templates, ...claim }: MailClaim,
): Promise<ClaimedMail[]> {
  const table = {
    name: "mail_outbox",
    waiting: sql`
      sent_at is null and given_up_at is null and created_at > ${createdAfter} and template = any(${[...templates]})
    `,
    columns: sql`
      claimed.id, template, recipient, data, attempts,
      (select language from users where users.id = claimed.user_id) as language,
      (select time_zone from users where users.id = claimed.user_id) as "timeZone"
    `,
    countsAttempts: true,
  };
  return claimDue<ClaimedMail>(sql, table, claim);
}

/** Erases recipient and content. */
export async function markMailSent(sql: Sql, id: string, now: Date): Promise<void> {
  await sql`
    update mail_outbox
    set sent_at = ${now}, last_error = null, recipient = null, data = null
    where id = ${id} and sent_at is null and given_up_at is null
  `;
}

/** Ignored after another lease. @param reason at most 64 characters. */
export async function postponeMail(
  sql: Sql,
  { id, attempts }: ClaimedMail,
  next: { attemptAt: Date; reason: string },
): Promise<void> {
  await sql`
    update mail_outbox
    set next_attempt_at = ${next.attemptAt}, last_error = ${next.reason}
    where id = ${id} and attempts = ${attempts} and sent_at is null and given_up_at is null
  `;
}

/** Ignored after another lease. @param reason at most 64 characters. */
export async function giveUpMail(
  sql: Sql,
  { id, attempts }: ClaimedMail,
  end: { now: Date; reason: string },
): Promise<void> {
  await sql`
    update mail_outbox
    set given_up_at = ${end.now}, last_error = ${end.reason}, recipient = null, data = null
    where id = ${id} and attempts = ${attempts} and sent_at is null and given_up_at is null
  `;
}

export async function giveUpOverdueMails(
  sql: Sql,
  overdue: { now: Date; createdUntil: Date; limit: number },
): Promise<GivenUpMail[]> {
  return sql<GivenUpMail[]>`
    with overdue as materialized (
      select id from mail_outbox
      where sent_at is null and given_up_at is null and next_attempt_at <= ${overdue.now}
        and created_at <= ${overdue.createdUntil}
      order by created_at
      limit ${overdue.limit}
      for update skip locked
    )
    update mail_outbox as mail
    set given_up_at = ${overdue.now}, recipient = null, data = null
    from overdue where mail.id = overdue.id
    returning mail.id, mail.template, mail.attempts, mail.last_error as "lastError"
  `;
}

export async function deleteDoneMails(sql: Sql, createdBefore: Date, limit: number): Promise<number> {
  const result = await sql`
    delete from mail_outbox where id = any(array(
      select id from mail_outbox
      where created_at < ${createdBefore} and (sent_at is not null or given_up_at is not null)
      order by created_at
      limit ${limit}
      for update skip locked
    ))
  `;
  return result.count;
}

/** Without recipient and content. */
export interface MailRecord {
  template: string;
  createdAt: Date;
  /** `withheld`: a limit of mails was reached, and nothing was sent. */
  state: "waiting" | "sent" | "given_up" | "withheld";
  /** Null while it waits. */
  endedAt: Date | null;
  attempts: number;
}

/** Newest first, of the last 30 days. */
export async function listMailsOfUser(sql: Sql, userId: string, limit: number): Promise<MailRecord[]> {
  return sql<MailRecord[]>`
    select template, created_at as "createdAt", coalesce(sent_at, given_up_at) as "endedAt", attempts,
      case when sent_at is not null then 'sent' when given_up_at is null then 'waiting'
        when attempts = 0 and given_up_at = created_at then 'withheld' else 'given_up' end as state
    from mail_outbox where user_id = ${userId} order by created_at desc, id desc limit ${limit}
  `;
}

/** Neither sent nor given up. */
export async function oldestWaitingMail(sql: Sql): Promise<Date | undefined> {
  const [row] = await sql<{ createdAt: Date }[]>`
    select created_at as "createdAt" from mail_outbox
    where sent_at is null and given_up_at is null
    order by created_at
    limit 1
  `;
  return row?.createdAt;
}
