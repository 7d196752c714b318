export const ROLES = ["USER", "ADMIN", "AUDITOR"] as const;
export type Role = (typeof ROLES)[number];

export const USER_STATUSES = ["active", "disabled"] as const;
export type UserStatus = (typeof USER_STATUSES)[number];

export interface ManagedUser {
  user: User;
  status: UserStatus;
  /** Undefined if never, or if before the recording began. */
  firstLoginAt: Date | undefined;
  mustChangePassword: boolean;
}

export interface User {
  /** UUIDv7. */
  id: string;
  /** Canonical form. */
  email: string;
  firstName: string;
  lastName: string;
  role: Role;
  emailVerified: boolean;
  mfaEnabled: boolean;
  createdAt: Date;
}
