import { canonicalEmail } from "../../service-kit/canonical-email.ts";
import { type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import type { AfterAnswer } from "../mail/after-answer.ts";
import {
  enqueueResetMail,
  enqueueStrangersMail,
  hasResetBudget,
  hasStrangersBudget,
  type MailBudgetDeps,
} from "../mail/mail-budget.ts";
import { hasHadEnough, type MakeLinkDeps, makeLink } from "../mail/make-link.ts";
import { type SpendCallDeps, spendAsKnown, spendOrRefuse, type TokenCall } from "../throttle/spend-call.ts";
import { type LockedAccount, lockAccountOf } from "../users/account-store.ts";

export interface MailALinkDeps extends MakeLinkDeps, MailBudgetDeps, SpendCallDeps {
  afterAnswer: AfterAnswer;
  /** There is a mail to send; not waited for. */
  wakeMailWorker: () => void;
}

/** Who wants a mail, and from where. */
export interface AskedMail {
  /** As typed. */
  email: string;
  /** The client's address; without one the call is counted only against everybody's budget. */
  clientIp?: string;
  /** The device token of an earlier login, of any account: it identifies the caller, not the address. */
  deviceToken?: string;
}

/**
 * Asks for a mail with a link. The answer comes at once and is the same for every address: whether there is an account,
 * and what it needs, is looked up after it. How many mails an account and an address get is limited, silently.
 *
 * @param isDue whether an active account gets one.
 * @throws {DomainError} `too_many_requests` for the network or everybody; `busy`.
 */
export async function mailALink(
  deps: MailALinkDeps,
  kind:
    | { call: "resend_verification"; purpose: "verify_email"; template: "verify-email" }
    | { call: "forgot_password"; purpose: "reset_password"; template: "reset-password" },
  asked: AskedMail,
  isDue: (account: LockedAccount) => boolean,
): Promise<void> {
  const { clientIp, deviceToken } = asked;
  const isKnown = await spend(deps, { kind: kind.call, clientIp, deviceToken });
  const work = async () => {
    const email = canonicalEmail(asked.email);
    if (email === undefined) return;
    const isMade = await transaction(deps.sql, async (tx) => {
      const account = await lockAccountOf(tx, email);
      if (account === undefined || !account.isActive || !isDue(account)) return false;
      return kind.purpose === "reset_password"
        ? mailReset(tx, deps, account)
        : mailVerification(tx, deps, account);
    });
    if (isMade) deps.wakeMailWorker();
  };
  deps.afterAnswer.run(kind.template, work, isKnown);
}

/** @returns whether the caller was counted as known. A known caller is also recognised when the strangers' queue is full. */
async function spend(deps: MailALinkDeps, call: TokenCall): Promise<boolean> {
  if (await spendOrRefuse(deps, call)) return true;
  return deps.afterAnswer.isFull && (await spendAsKnown(deps, call))?.kind === "admitted";
}

async function mailReset(tx: TransactionSql, deps: MailALinkDeps, account: LockedAccount): Promise<boolean> {
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

async function mailVerification(
  tx: TransactionSql,
  deps: MailALinkDeps,
  account: LockedAccount,
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
