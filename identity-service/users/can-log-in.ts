import type { Account } from "./account.ts";

export interface LoginRules {
  loginRequiresVerifiedEmail: boolean;
  passwords: { isReadable(storedHash: string): boolean };
  relyingParties: { values(): Iterable<{ issuer: string }> };
}

/** With what an active account may log in. */
export type WaysIn = Pick<Account, "emailVerified" | "passwordHash"> & {
  hasPasskey: boolean;
  /** Of its identities. */
  issuers: readonly string[];
};

/** Every login asks this, whatever was proven. */
export function needsVerifiedEmail(
  { loginRequiresVerifiedEmail }: Pick<LoginRules, "loginRequiresVerifiedEmail">,
  { emailVerified }: Pick<Account, "emailVerified">,
): boolean {
  return loginRequiresVerifiedEmail && !emailVerified;
}

/** A lock after wrong passwords is no reason: anybody can cause it, and it passes, or a mail opens it. */
export function canLogIn(deps: LoginRules, ways: WaysIn): boolean {
  if (needsVerifiedEmail(deps, ways)) return false;
  if (ways.hasPasskey || (ways.passwordHash !== null && deps.passwords.isReadable(ways.passwordHash))) {
    return true;
  }
  return [...deps.relyingParties.values()].some(({ issuer }) => ways.issuers.includes(issuer));
}
