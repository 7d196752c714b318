import type { Sql, TransactionSql } from "#kit/database/postgres.ts";
import type { Account } from "../users/account.ts";
import { countOpenLinks } from "./link-store.ts";
import { LINK_LIFETIME_MS } from "./links.ts";
import type { NewMail, StrangersMail } from "./mail.ts";
import { countMails, deleteOldCounts, insertCountedMail, type MailCount } from "./mail-budget-store.ts";
import { insertMail } from "./mail-outbox-store.ts";

interface MailLimits {
  /** Without reset links. */
  strangersPerHour: number;
  strangersPerDay: number;
  /** From 59 on, a reset is always possible. */
  resetsPerDay: number;
}

export interface MailBudgetDeps {
  mailLimits: MailLimits;
  now: () => Date;
  newId: () => string;
}

const DAY_MS = 24 * 3_600_000;
/** For lost mails, while a link is open. */
const MORE_RESETS = { perHour: 3, perDay: 10 };

/** Call before making the link: a refused mail must not invalidate an earlier link. */
export async function hasStrangersBudget(
  tx: TransactionSql,
  { mailLimits, now }: Pick<MailBudgetDeps, "mailLimits" | "now">,
  recipient: string,
): Promise<boolean> {
  const { lastHour, lastDay } = await countMails(tx, { kind: "stranger", recipient }, now());
  return lastHour < mailLimits.strangersPerHour && lastDay < mailLimits.strangersPerDay;
}

/**
 * Without an open link of the last 30 minutes always true: at most 49 a day. A plain limit would let an attacker block the
 * owner's resets, and so would an invitation, which is open for days.
 */
export async function hasResetBudget(
  tx: TransactionSql,
  { mailLimits, now }: Pick<MailBudgetDeps, "mailLimits" | "now">,
  account: Pick<Account, "id" | "email">,
): Promise<boolean> {
  const { lastHour, lastDay } = await countMails(tx, { kind: "reset", recipient: account.email }, now());
  const madeAfter = new Date(now().getTime() - LINK_LIFETIME_MS.reset_password);
  const wanted = { userId: account.id, purpose: "reset_password", now: now(), madeAfter } as const;
  if ((await countOpenLinks(tx, wanted)) === 0) return lastDay < mailLimits.resetsPerDay;
  return lastHour < MORE_RESETS.perHour && lastDay < Math.min(MORE_RESETS.perDay, mailLimits.resetsPerDay);
}

/** Call in the transaction of the cause. Do not reveal a refusal. */
export async function enqueueStrangersMail(
  tx: TransactionSql,
  deps: MailBudgetDeps,
  mail: StrangersMail,
): Promise<boolean> {
  if (!(await hasStrangersBudget(tx, deps, mail.recipient))) return false;
  return enqueueCounted(tx, deps, mail, "stranger");
}

/** Call `hasResetBudget` before. */
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

const MAX_BATCH = 1_000;

export async function deleteOldMailCounts(deps: { sql: Sql; now: () => Date }): Promise<void> {
  const which = { countedBefore: new Date(deps.now().getTime() - DAY_MS), limit: MAX_BATCH };
  while ((await deleteOldCounts(deps.sql, which)) === MAX_BATCH);
}
