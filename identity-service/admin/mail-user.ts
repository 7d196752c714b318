import { validate as isUuid } from "uuid";
import { type TransactionSql, transaction } from "#kit/database/postgres.ts";
import type { CallContext } from "#kit/rpc/call-context.ts";
import { DomainError } from "#kit/values/errors.ts";
import { withReason } from "../audit/act-reason.ts";
import { recordAudit } from "../audit/record-audit.ts";
import { listIdentities } from "../identities/external-identity-store.ts";
import { mailInvitation, mailReset, mailVerification } from "../mail/link-mails.ts";
import type { Account, Locked } from "../users/account.ts";
import { lockAccount } from "../users/account-store.ts";
import { type AdminDeps, assertMayActOn } from "./authorize.ts";
import { MAIL_LIMIT } from "./invite-user.ts";

export type UserLink = "confirmation" | "reset";

/**
 * Only the address of the account gets the link, within the limits of mails that strangers ask for.
 * @throws {DomainError} `forbidden`, `not_found`, `conflict`.
 */
export async function mailUser(
  deps: AdminDeps,
  { userId, link, reason }: { userId: string; link: UserLink; reason: string },
  context: CallContext,
): Promise<void> {
  if (!isUuid(userId)) throw new DomainError("not_found");
  await transaction(deps.sql, async (tx) => {
    const account = await lockAccount(tx, userId);
    if (account === undefined) throw new DomainError("not_found");
    assertMayActOn(deps, context, account);
    if (account.status !== "active") throw new DomainError("conflict", "The account is disabled.");
    const isMade =
      link === "reset" ? await mailReset(tx, deps, account) : await mailConfirmation(tx, deps, account);
    if (!isMade) throw new DomainError("conflict", MAIL_LIMIT);
    const event = { type: "link_mailed", userId: account.id, reason: withReason(link, reason) } as const;
    await recordAudit(tx, deps, event, context);
  });
  deps.wakeMailWorker();
}

async function mailConfirmation(
  tx: TransactionSql,
  deps: AdminDeps,
  account: Locked<Account>,
): Promise<boolean> {
  if (account.credentialsProvenAt !== null)
    throw new DomainError("conflict", "The address is confirmed already.");
  // Without a way to log in, a confirmation leads nowhere.
  const isInvited = account.passwordHash === null && (await listIdentities(tx, account.id)).length === 0;
  return isInvited ? mailInvitation(tx, deps, account) : mailVerification(tx, deps, account);
}
