import { DomainError } from "../../service-kit/errors.ts";
import type { OpenLink } from "../mail/link-store.ts";
import { isStill, type ReauthenticateDeps, reauthenticate } from "../passwords/reauthenticate.ts";
import { findAccountById, type LockedAccount } from "../users/account-store.ts";

/** A mailed link that is used, and what shows that its reader holds the account's credentials. */
export interface ProvenLink {
  token: string;
  /** Of the session that came along; empty: none did. */
  sessionUserId: string;
  /** As typed. Empty if none was given. */
  password: string;
  /** May be empty. */
  clientIp: string;
}

/** The account as it was when its credentials were shown. Undefined: nothing was shown. */
export type ShownCredentials = LockedAccount | undefined;

/**
 * Checks what came along with a link: a session of the link's account, its password, or nothing. Guesses of the password
 * count like those of a user who is logged in; nobody without an open link of the account can make any.
 *
 * @throws {DomainError} `invalid_credentials` for a wrong password and for a session of another account;
 *   `too_many_requests`, `busy`, `service_unavailable`.
 */
export async function showCredentials(
  deps: ReauthenticateDeps,
  { userId }: OpenLink,
  { sessionUserId, password, clientIp }: ProvenLink,
  deadlineMs: number,
): Promise<ShownCredentials> {
  if (sessionUserId !== "" && sessionUserId !== userId) throw new DomainError("invalid_credentials");
  if (password !== "") return reauthenticate(deps, { userId, password, clientIp }, deadlineMs);
  return sessionUserId === "" ? undefined : findAccountById(deps.sql, userId);
}

/** @throws {DomainError} `invalid_credentials` if the credentials have changed since they were shown. */
export function assertStillShown(shown: LockedAccount, account: LockedAccount): void {
  if (!isStill(shown, account)) throw new DomainError("invalid_credentials");
}
