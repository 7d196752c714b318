import { DomainError } from "../../service-kit/errors.ts";
import type { ClientOrigin } from "../audit/client-origin.ts";
import { reauthenticate } from "../passwords/reauthenticate.ts";
import type { Account } from "../users/account.ts";
import { findAccountById } from "../users/account-store.ts";
import type { OAuthDeps } from "./oauth-deps.ts";

export interface IdentityOwner extends ClientOrigin {
  userId: string;
  sessionId: string;
  authTime: Date;
  password: string;
}

const FRESH_MS = 10 * 60_000;

/**
 * Against stolen sessions, requires the password or, without one, a recent login.
 * @throws {DomainError} `reauthentication_required`, `invalid_credentials`.
 */
export async function proveOwner(
  deps: OAuthDeps,
  owner: IdentityOwner,
  deadlineMs: number,
): Promise<Account> {
  const account = await findAccountById(deps.sql, owner.userId);
  if (account?.status !== "active") throw new DomainError("invalid_credentials");
  if (account.passwordHash !== null) {
    if (owner.password === "") throw new DomainError("reauthentication_required");
    return reauthenticate(deps, owner, deadlineMs);
  }
  if (!isFresh(deps.now(), owner.authTime, account)) throw new DomainError("reauthentication_required");
  return account;
}

/** An earlier login may be an attacker's. Login times have whole seconds (RFC 7519 §2). */
function isFresh(now: Date, authTime: Date, { credentialsProvenAt }: Account): boolean {
  if (now.getTime() - authTime.getTime() > FRESH_MS) return false;
  const provenS = Math.floor((credentialsProvenAt?.getTime() ?? 0) / 1_000);
  return Math.floor(authTime.getTime() / 1_000) >= provenS;
}
