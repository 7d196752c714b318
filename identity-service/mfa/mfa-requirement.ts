import { DomainError } from "../../service-kit/errors.ts";
import type { Account, Role } from "../users/account.ts";

export interface MfaRequirementDeps {
  /** Users of these roles cannot log in without a second factor. */
  mfaRequiredRoles: ReadonlySet<Role>;
}

export function isMfaRequired(deps: MfaRequirementDeps, { role }: Pick<Account, "role">): boolean {
  return deps.mfaRequiredRoles.has(role);
}

/** Call under the account lock. @throws {DomainError} `mfa_required` for the last factor of a required role. */
export function assertFactorRemovable(
  deps: MfaRequirementDeps,
  user: Pick<Account, "role">,
  factorsLeft: number,
): void {
  if (factorsLeft === 0 && isMfaRequired(deps, user)) throw new DomainError("mfa_required");
}
