import type { User } from "../../proto/gen/gatehouse/identity/v1/user.ts";
import { type ManagedUser, UserStatus } from "../../proto/gen/gatehouse/identity/v1/user_admin_service.ts";
import { Role } from "../../proto/gen/gatehouse/token/v1/principal.ts";

/** For `--json`. Times are RFC 3339 UTC. */
export interface UserView {
  id: string;
  email: string;
  firstName: string;
  lastName: string;
  /** `USER`, `ADMIN`, `AUDITOR` or `unknown`. */
  role: string;
  /** `active`, `disabled` or `unknown`. */
  status: string;
  emailVerified: boolean;
  mfaEnabled: boolean;
  mustChangePassword: boolean;
  createdAt: string | null;
  firstLoginAt: string | null;
}

const STATUS = new Map<UserStatus, string>([
  [UserStatus.ACTIVE, "active"],
  [UserStatus.DISABLED, "disabled"],
]);
export const ROLES = new Map<string, Role>([
  ["USER", Role.USER],
  ["ADMIN", Role.ADMIN],
  ["AUDITOR", Role.AUDITOR],
]);
export const STATUSES = new Map<string, UserStatus>([...STATUS].map(([status, name]) => [name, status]));

export function userView(managed: ManagedUser | undefined): UserView {
  const user: Partial<User> = managed?.user ?? {};
  const [role = "unknown"] = [...ROLES].find(([, value]) => value === user.role) ?? [];
  return {
    id: user.id ?? "",
    email: user.email ?? "",
    firstName: user.firstName ?? "",
    lastName: user.lastName ?? "",
    role,
    status: STATUS.get(managed?.status ?? UserStatus.UNSPECIFIED) ?? "unknown",
    emailVerified: user.emailVerified === true,
    mfaEnabled: user.mfaEnabled === true,
    mustChangePassword: managed?.mustChangePassword === true,
    createdAt: user.createdAt?.toISOString() ?? null,
    firstLoginAt: managed?.firstLoginAt?.toISOString() ?? null,
  };
}
