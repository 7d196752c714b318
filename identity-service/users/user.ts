/** What a user may do. */
export const ROLES = ["USER", "ADMIN", "AUDITOR"] as const;
export type Role = (typeof ROLES)[number];

/** A disabled account cannot log in. */
export const USER_STATUSES = ["active", "disabled"] as const;
export type UserStatus = (typeof USER_STATUSES)[number];

/** An account as administrators see it. */
export interface ManagedUser {
  user: User;
  status: UserStatus;
  /** Undefined if never, or before this was kept. */
  firstLoginAt: Date | undefined;
  /** The next login gives no session before the password was changed. */
  mustChangePassword: boolean;
}

/** An account as its owner sees it. */
export interface User {
  /** UUIDv7. */
  id: string;
  /** Canonical. */
  email: string;
  firstName: string;
  lastName: string;
  role: Role;
  /** Whether the address was proven. */
  emailVerified: boolean;
  /** Whether a login needs a code of the second factor. */
  mfaEnabled: boolean;
  createdAt: Date;
}
