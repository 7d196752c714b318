import { isRoleName } from "#kit/values/access-names.ts";
import type { User } from "#proto/gatehouse/identity/v1/user.ts";
import { type ManagedUser, UserStatus } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { UsageError } from "../../usage-error.ts";

/** Printed for `--json`. Times are RFC 3339 UTC. */
export interface UserView {
  id: string;
  email: string;
  firstName: string;
  lastName: string;
  /** Named as in `access.yaml`, or `unknown`. */
  role: string;
  /** `active`, `disabled` or `unknown`. */
  status: string;
  emailVerified: boolean;
  mfaEnabled: boolean;
  mustChangePassword: boolean;
  createdAt: string | null;
  firstLoginAt: string | null;
  lastLoginAt: string | null;
}

const STATUS = new Map<UserStatus, string>([
  [UserStatus.ACTIVE, "active"],
  [UserStatus.DISABLED, "disabled"],
]);
export const STATUSES = new Map<string, UserStatus>([...STATUS].map(([status, name]) => [name, status]));

/** @throws {UsageError} for what cannot be a role. */
export function roleNamed(option: string, name: string | undefined): string {
  if (!isRoleName(name)) throw new UsageError(`${option} must be a role such as USER`);
  return name;
}

export function userView(managed: ManagedUser | undefined): UserView {
  const user: Partial<User> = managed?.user ?? {};
  return {
    id: user.id ?? "",
    email: user.email ?? "",
    firstName: user.firstName ?? "",
    lastName: user.lastName ?? "",
    role: user.role || "unknown",
    status: STATUS.get(managed?.status ?? UserStatus.UNSPECIFIED) ?? "unknown",
    emailVerified: user.emailVerified === true,
    mfaEnabled: user.mfaEnabled === true,
    mustChangePassword: managed?.mustChangePassword === true,
    createdAt: user.createdAt?.toISOString() ?? null,
    firstLoginAt: managed?.firstLoginAt?.toISOString() ?? null,
    lastLoginAt: managed?.lastLoginAt?.toISOString() ?? null,
  };
}
