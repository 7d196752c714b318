import { DomainError } from "../../service-kit/errors.ts";
import type { OpenLink } from "../mail/link-store.ts";
import { isStill, type ReauthenticateDeps, reauthenticate } from "../passwords/reauthenticate.ts";
import type { Account, Locked } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";

export interface ProvenLink {
  token: string;
  /** Empty without a session. */
  sessionUserId: string;
  password: string;
  clientIp: string;
}

/**
 * The account at the time of the proof; undefined without one. Throttled like a reauthentication.
 * @throws {DomainError} `invalid_credentials`.
 */
export async function showCredentials(
  deps: ReauthenticateDeps,
  { userId }: OpenLink,
  { sessionUserId, password, clientIp }: ProvenLink,
  deadlineMs: number,
): Promise<Account | undefined> {
  if (sessionUserId !== "" && sessionUserId !== userId) throw new DomainError("invalid_credentials");
  if (password !== "") return reauthenticate(deps, { userId, password, clientIp }, deadlineMs);
  return sessionUserId === "" ? undefined : findAccountById(deps.sql, userId);
}

/** @throws {DomainError} `invalid_credentials` after a change. */
export function assertStillShown(shown: Account, account: Locked<Account>): void {
  if (!isStill(shown, account)) throw new DomainError("invalid_credentials");
}
