/** What a user may do. */
export const ROLES = ["USER", "ADMIN", "AUDITOR"] as const;
export type Role = (typeof ROLES)[number];

/** A disabled account cannot log in. */
export const USER_STATUSES = ["active", "disabled"] as const;
export type UserStatus = (typeof USER_STATUSES)[number];

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
  createdAt: Date;
}
