import { DomainError } from "#kit/values/errors.ts";
import type { Account } from "../users/account.ts";
import type { MfaDeps } from "./mfa-deps.ts";

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
