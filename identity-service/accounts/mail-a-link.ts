import { canonicalEmail } from "../../service-kit/canonical-email.ts";
import { type TransactionSql, transaction } from "../../service-kit/postgres.ts";
import {
  enqueueResetMail,
  enqueueStrangersMail,
  hasResetBudget,
  hasStrangersBudget,
} from "../mail/mail-budget.ts";
import { hasHadEnough, makeLink } from "../mail/make-link.ts";
import { spendAsKnown, spendOrRefuse, type TokenCall } from "../throttle/spend-call.ts";
import { type LockedAccount, lockAccountByEmail } from "../users/account-store.ts";
import type { AccountsDeps } from "./accounts-deps.ts";

interface AskedMail {
  email: string;
  /** Without an address, only the global limit applies. */
  clientIp?: string;
  /** Identifies the caller, not the address; any account's device token. */
  deviceToken?: string;
}

/** Mails a password reset link if the address has an active account. */
export function forgotPassword(deps: AccountsDeps, asked: AskedMail): Promise<void> {
  const kind = { call: "forgot_password", purpose: "reset_password", template: "reset-password" } as const;
  return mailALink(deps, kind, asked, () => true);
}

/** Mails a new verification link if the credentials are unproven. */
export function resendVerification(deps: AccountsDeps, asked: AskedMail): Promise<void> {
  const kind = { call: "resend_verification", purpose: "verify_email", template: "verify-email" } as const;
  return mailALink(deps, kind, asked, ({ credentialsProvenAt }) => credentialsProvenAt === null);
}

/** Looks the account up after the answer, which is the same for every address. Mail limits apply silently. */
async function mailALink(
  deps: AccountsDeps,
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
      const account = await lockAccountByEmail(tx, email);
      if (account === undefined || !account.isActive || !isDue(account)) return false;
      return kind.purpose === "reset_password"
        ? mailReset(tx, deps, account)
        : mailVerification(tx, deps, account);
    });
    if (isMade) deps.wakeMailWorker();
  };
  deps.afterAnswer.run(kind.template, work, isKnown);
}

/** Whether the caller is known. Known callers are recognised even while the queue of the others is full. */
async function spend(deps: AccountsDeps, call: TokenCall): Promise<boolean> {
  if (await spendOrRefuse(deps, call)) return true;
  return deps.afterAnswer.isFull && (await spendAsKnown(deps, call))?.kind === "admitted";
}

async function mailReset(tx: TransactionSql, deps: AccountsDeps, account: LockedAccount): Promise<boolean> {
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
  deps: AccountsDeps,
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
