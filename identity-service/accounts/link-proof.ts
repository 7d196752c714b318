import { DomainError } from "../../service-kit/errors.ts";
import type { OpenLink } from "../mail/link-store.ts";
import { isStill, type ReauthenticateDeps, reauthenticate } from "../passwords/reauthenticate.ts";
import { findAccountById, type LockedAccount } from "../users/account-store.ts";

export interface ProvenLink {
  token: string;
  /** Empty without a session. */
  sessionUserId: string;
  password: string;
  clientIp: string;
}

/** The account at the time of the proof. Undefined without proof. */
export type ShownCredentials = LockedAccount | undefined;

/** Attempts are throttled like a reauthentication. @throws {DomainError} `invalid_credentials`. */
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

/** @throws {DomainError} `invalid_credentials` if the credentials have changed since. */
export function assertStillShown(shown: LockedAccount, account: LockedAccount): void {
  if (!isStill(shown, account)) throw new DomainError("invalid_credentials");
}
