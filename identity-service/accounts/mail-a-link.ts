import { transaction } from "#kit/database/postgres.ts";
import { canonicalEmail } from "#kit/values/canonical-email.ts";
import { mailReset, mailVerification } from "../mail/link-mails.ts";
import { spendAsKnown, spendOrRefuse, type TokenCall } from "../throttle/spend-call.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccountByEmail } from "../users/account-store.ts";
import type { AccountsDeps } from "./register.ts";

interface AskedMail {
  email: string;
  clientIp?: string;
  /** Identifies the caller; any account's. */
  deviceToken?: string;
}

export function forgotPassword(deps: AccountsDeps, asked: AskedMail): Promise<void> {
  const kind = { call: "forgot_password", purpose: "reset_password", template: "reset-password" } as const;
  return mailALink(deps, kind, asked, () => true);
}

export function resendVerification(deps: AccountsDeps, asked: AskedMail): Promise<void> {
  const kind = { call: "resend_verification", purpose: "verify_email", template: "verify-email" } as const;
  return mailALink(deps, kind, asked, ({ credentialsProvenAt }) => credentialsProvenAt === null);
}

/** Looks the account up after the answer, which is always the same. Mail limits apply silently. */
async function mailALink(
  deps: AccountsDeps,
  kind:
    | { call: "resend_verification"; purpose: "verify_email"; template: "verify-email" }
    | { call: "forgot_password"; purpose: "reset_password"; template: "reset-password" },
  asked: AskedMail,
  isDue: (account: Locked<Account>) => boolean,
): Promise<void> {
  const { clientIp, deviceToken } = asked;
  const isKnown = await spend(deps, { kind: kind.call, clientIp, deviceToken });
  const work = async () => {
    const email = canonicalEmail(asked.email);
    if (email === undefined) return;
    const isMade = await transaction(deps.sql, async (tx) => {
      const account = await lockAccountByEmail(tx, email);
      if (account?.status !== "active" || !isDue(account)) return false;
      return kind.purpose === "reset_password"
        ? mailReset(tx, deps, account)
        : mailVerification(tx, deps, account);
    });
    if (isMade) deps.wakeMailWorker();
  };
  deps.afterAnswer.run(kind.template, work, isKnown);
}

/** Known callers are recognised even while the queue of the others is full. */
async function spend(deps: AccountsDeps, call: TokenCall): Promise<boolean> {
  if (await spendOrRefuse(deps, call)) return true;
  return deps.afterAnswer.isFull && (await spendAsKnown(deps, call))?.kind === "admitted";
}
