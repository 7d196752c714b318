import { DomainError } from "#kit/values/errors.ts";
import type { Account } from "../users/account.ts";
import type { MfaDeps } from "./check-mfa-code.ts";

export type SecondFactor = "passkey" | "totp" | "recovery_code";

/** In the order in which clients should offer them. */
export function secondFactorsOf(
  user: Pick<Account, "hasTotp" | "passkeyCount" | "mfaEnabled">,
): SecondFactor[] {
  return [
    ...(user.passkeyCount > 0 ? (["passkey"] as const) : []),
    ...(user.hasTotp ? (["totp"] as const) : []),
    ...(user.mfaEnabled ? (["recovery_code"] as const) : []),
  ];
}

export function isMfaRequired(
  deps: Pick<MfaDeps, "mfaRequiredRoles">,
  { role }: Pick<Account, "role">,
): boolean {
  return deps.mfaRequiredRoles.has(role);
}

/** Call under the account lock. @throws {DomainError} `mfa_required` for the last factor of a required role. */
export function assertFactorRemovable(
  deps: Pick<MfaDeps, "mfaRequiredRoles">,
  user: Pick<Account, "role">,
  factorsLeft: number,
): void {
  if (factorsLeft === 0 && isMfaRequired(deps, user)) throw new DomainError("mfa_required");
}
