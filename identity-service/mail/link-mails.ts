import type { TransactionSql } from "#kit/database/postgres.ts";
import type { Account, Locked } from "../users/account.ts";
import {
  enqueueResetMail,
  enqueueStrangersMail,
  hasResetBudget,
  hasStrangersBudget,
  type MailBudgetDeps,
} from "./mail-budget.ts";
import { hasHadEnough, type MakeLinkDeps, makeLink } from "./make-link.ts";

/** As long as an invitation may wait in a mailbox. */
const INVITATION_MS = 7 * 24 * 3_600_000;

/** False at the limit of mails. */
export async function mailReset(
  tx: TransactionSql,
  deps: MakeLinkDeps & MailBudgetDeps,
  account: Locked<Account>,
): Promise<boolean> {
  if (!(await hasResetBudget(tx, deps, account))) return false;
  const { id: userId, email: recipient } = account;
  const data = { link: await makeLink(tx, deps, { userId, purpose: "reset_password" }) };
  return enqueueResetMail(tx, deps, {
    id: deps.newId(),
    userId,
    recipient,
    template: "reset-password",
    data,
  });
}

/** False at the limit of mails. */
export async function mailVerification(
  tx: TransactionSql,
  deps: MakeLinkDeps & MailBudgetDeps,
  account: Locked<Account>,
): Promise<boolean> {
  const { id: userId, email: recipient } = account;
  const wanted = { userId, purpose: "verify_email" } as const;
  if ((await hasHadEnough(tx, deps, wanted)) || !(await hasStrangersBudget(tx, deps, recipient)))
    return false;
  const data = { link: await makeLink(tx, deps, wanted) };
  return enqueueStrangersMail(tx, deps, {
    id: deps.newId(),
    userId,
    recipient,
    template: "verify-email",
    data,
  });
}

/** False at the limit of mails. */
export async function mailInvitation(
  tx: TransactionSql,
  deps: MakeLinkDeps & MailBudgetDeps,
  { id: userId, email: recipient }: Pick<Account, "id" | "email">,
): Promise<boolean> {
  const way = { userId, purpose: "reset_password", lifetimeMs: INVITATION_MS } as const;
  const data = { link: await makeLink(tx, deps, way) };
  const mail = { id: deps.newId(), userId, recipient };
  return enqueueStrangersMail(tx, deps, { ...mail, template: "invitation", data });
}
