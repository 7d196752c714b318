import { DomainError } from "../../service-kit/errors.ts";
import { type ReauthenticateDeps, reauthenticate } from "../passwords/reauthenticate.ts";
import { findAccountById, type LockedAccount } from "../users/account-store.ts";

export interface ProveOwnerDeps extends ReauthenticateDeps {
  now: () => Date;
}

/** A logged-in user, and what proves once more that it is them. */
export interface IdentityOwner {
  userId: string;
  /** The session that stays. */
  sessionId: string;
  /** When its user proved who they are. */
  authTime: Date;
  /** Empty if none was given. */
  password: string;
  /** May be empty. */
  clientIp: string;
  /** May be empty. */
  userAgent: string;
}

/** A login is fresh for so long. */
const FRESH_MS = 10 * 60_000;

/**
 * Proves a user before a change of the ways to log in, which a stolen session must not make: by the password, or for an
 * account without one by a login of the last ten minutes.
 *
 * @throws {DomainError} `reauthentication_required` if there is no proof; `invalid_credentials` for a wrong one;
 *   `too_many_requests`, `busy`, `service_unavailable`.
 */
export async function proveOwner(
  deps: ProveOwnerDeps,
  owner: IdentityOwner,
  deadlineMs: number,
): Promise<LockedAccount> {
  const account = await findAccountById(deps.sql, owner.userId);
  if (account?.isActive !== true) throw new DomainError("invalid_credentials");
  if (account.passwordHash !== null) {
    if (owner.password === "") throw new DomainError("reauthentication_required");
    return reauthenticate(deps, owner, deadlineMs);
  }
  if (!isFresh(deps.now(), owner.authTime, account)) throw new DomainError("reauthentication_required");
  return account;
}

/**
 * A login of before the last proof may be that of somebody whose credentials were evicted by it, and whose session is
 * ending just now. The time of a login comes in whole seconds (RFC 7519 §2).
 */
function isFresh(now: Date, authTime: Date, { credentialsProvenAt }: LockedAccount): boolean {
  if (now.getTime() - authTime.getTime() > FRESH_MS) return false;
  const provenS = Math.floor((credentialsProvenAt?.getTime() ?? 0) / 1_000);
  return Math.floor(authTime.getTime() / 1_000) >= provenS;
}
