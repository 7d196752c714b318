import { type Sql, type TransactionSql, transaction } from "#kit/database/postgres.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import type { Account, Locked } from "../users/account.ts";
import { findAccountById, lockAccount } from "../users/account-store.ts";
import { consumeLink, findOpenLink, type OpenLink } from "./link-store.ts";
import { hashOfToken, LINK_PURPOSES, type LinkPurpose } from "./links.ts";

export interface UseLinkDeps {
  sql: Sql;
  now: () => Date;
}

const REFUSAL: Record<LinkPurpose, ErrorCode> = {
  verify_email: "verification_token_invalid",
  reset_password: "reset_token_invalid",
  confirm_email_change: "verification_token_invalid",
  undo_email_change: "verification_token_invalid",
  undo_access_change: "verification_token_invalid",
};

export function linkRefused(purpose: LinkPurpose): DomainError {
  return new DomainError(REFUSAL[purpose]);
}

/** Read only. @throws {DomainError} `verification_token_invalid` or `reset_token_invalid`. */
export async function openLink(deps: UseLinkDeps, purpose: LinkPurpose, token: string): Promise<OpenLink> {
  const tokenHash = hashOfToken(token);
  const link = tokenHash && (await findOpenLink(deps.sql, { tokenHash, purpose, now: deps.now() }));
  if (link === undefined) throw linkRefused(purpose);
  return link;
}

/**
 * Read only: mail scanners open links.
 * @returns the address that the link confirms, empty for other purposes, whose reader may not know it; and whether it is
 * enough without the account's password.
 * @throws {DomainError} as `openLink`, or `validation_failed`.
 */
export async function checkLink(
  deps: UseLinkDeps,
  asked: { token: string; purpose: string },
): Promise<{ email: string; isVouched: boolean }> {
  const purpose = LINK_PURPOSES.find((known) => known === asked.purpose);
  if (purpose === undefined) throw new DomainError("validation_failed", "there are no such links");
  const { userId, newEmail, isVouched } = await openLink(deps, purpose, asked.token);
  const account = await findAccountById(deps.sql, userId);
  if (account?.status !== "active") throw linkRefused(purpose);
  if (purpose === "confirm_email_change") return { email: newEmail ?? "", isVouched };
  return { email: purpose === "verify_email" ? account.email : "", isVouched };
}

/** Atomic with the effect, whose error leaves the link usable. @throws {DomainError} as `openLink`. */
export async function useLink<T>(
  deps: UseLinkDeps,
  purpose: LinkPurpose,
  link: OpenLink,
  effect: (tx: TransactionSql, account: Locked<Account>) => Promise<T>,
): Promise<T> {
  // The postgres.js types unwrap arrays of promises, which an effect never returns.
  return transaction(deps.sql, async (tx) => {
    const account = await lockAccount(tx, link.userId);
    const isUsed = account?.status === "active" && (await consumeLink(tx, link.id, deps.now()));
    if (account === undefined || !isUsed) throw linkRefused(purpose);
    return effect(tx, account);
  }) as Promise<T>;
}
