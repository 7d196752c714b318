import type { Sql, TransactionSql } from "../../service-kit/postgres.ts";
import { countOpenLinks } from "./link-store.ts";
import type { NewMail, StrangersMail } from "./mail.ts";
import {
  deleteOldCounts,
  insertCountedMail,
  listCountedMails,
  lockRecipient,
  type MailCount,
} from "./mail-budget-store.ts";
import { insertMail } from "./mail-outbox-store.ts";

/** How many mails to one recipient strangers can cause. */
export interface MailLimits {
  /** Of those that a stranger can cause, but for reset links. */
  strangersPerHour: number;
  strangersPerDay: number;
  /** Of reset links. From 59 on one can be had at any time: see `hasResetBudget`. */
  resetsPerDay: number;
}

export interface MailBudgetDeps {
  mailLimits: MailLimits;
  now: () => Date;
  /** A new UUIDv7. */
  newId: () => string;
}

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Reset links while an earlier one is open: for a mail that got lost. */
const MORE_RESETS = { perHour: 3, perDay: 10 };

/**
 * Whether the recipient may get another mail that a stranger can cause. To be asked before a link is made for it: a link
 * must not be killed for one that nobody gets. Holds the recipient's lock until the transaction ends.
 */
export async function hasStrangersBudget(
  tx: TransactionSql,
  { mailLimits, now }: Pick<MailBudgetDeps, "mailLimits" | "now">,
  recipient: string,
): Promise<boolean> {
  const { lastHour, lastDay } = await countMails(tx, { kind: "stranger", recipient }, now());
  return lastHour < mailLimits.strangersPerHour && lastDay < mailLimits.strangersPerDay;
}

/**
 * Whether an account may get another reset link. While it has none that is open, always: a link is good for 30 minutes, so
 * that makes at most 49 a day. With an open one, three an hour and ten a day, so 59 at most. Without this rule, whoever
 * asks for three links each hour leaves the owner without one for half of the time.
 */
export async function hasResetBudget(
  tx: TransactionSql,
  { mailLimits, now }: Pick<MailBudgetDeps, "mailLimits" | "now">,
  account: { id: string; email: string },
): Promise<boolean> {
  const { lastHour, lastDay } = await countMails(tx, { kind: "reset", recipient: account.email }, now());
  const wanted = { userId: account.id, purpose: "reset_password", now: now() } as const;
  if ((await countOpenLinks(tx, wanted)) === 0) return lastDay < mailLimits.resetsPerDay;
  return lastHour < MORE_RESETS.perHour && lastDay < Math.min(MORE_RESETS.perDay, mailLimits.resetsPerDay);
}

/**
 * Puts a mail that a stranger can cause into the outbox, in the transaction of its cause, unless its recipient has had as
 * many as the limits allow. Who asked must not be told.
 *
 * @returns false, with nothing changed, if there is none.
 */
export async function enqueueStrangersMail(
  tx: TransactionSql,
  deps: MailBudgetDeps,
  mail: StrangersMail,
): Promise<boolean> {
  if (!(await hasStrangersBudget(tx, deps, mail.recipient))) return false;
  return enqueueCounted(tx, deps, mail, "stranger");
}

/** The same for a mail with a reset link, for which `hasResetBudget` was asked. */
export function enqueueResetMail(
  tx: TransactionSql,
  deps: MailBudgetDeps,
  mail: Extract<NewMail, { template: "reset-password" }>,
): Promise<boolean> {
  return enqueueCounted(tx, deps, mail, "reset");
}

async function enqueueCounted(
  tx: TransactionSql,
  deps: MailBudgetDeps,
  mail: NewMail,
  kind: MailCount["kind"],
): Promise<boolean> {
  const now = deps.now();
  if (!(await insertMail(tx, mail, now))) return false;
  await insertCountedMail(tx, { id: deps.newId(), kind, recipient: mail.recipient, createdAt: now });
  return true;
}

async function countMails(
  tx: TransactionSql,
  which: MailCount,
  now: Date,
): Promise<{ lastHour: number; lastDay: number }> {
  await lockRecipient(tx, which.recipient);
  const mails = await listCountedMails(tx, which, new Date(now.getTime() - DAY_MS));
  const hourAgo = now.getTime() - HOUR_MS;
  return {
    lastHour: mails.filter((createdAt) => createdAt.getTime() > hourAgo).length,
    lastDay: mails.length,
  };
}

const MAX_BATCH = 1_000;

/** Forgets mails that count no more. */
export async function deleteOldMailCounts(deps: { sql: Sql; now: () => Date }): Promise<void> {
  const now = deps.now();
  const which = { countedBefore: new Date(now.getTime() - DAY_MS), now, limit: MAX_BATCH };
  while ((await deleteOldCounts(deps.sql, which)) === MAX_BATCH);
}
