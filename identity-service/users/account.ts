/** As in `access.yaml`. */
export type Role = string;

export const USER_STATUSES = ["active", "disabled"] as const;
export type UserStatus = (typeof USER_STATUSES)[number];

/** A row of `users`. What reads less is a `Pick` of it. */
export interface Account {
  /** UUIDv7. */
  id: string;
  /** Canonical form. */
  email: string;
  emailVerified: boolean;
  firstName: string;
  lastName: string;
  role: Role;
  status: UserStatus;
  /** Canonical BCP 47 tag. Null if nobody has said. */
  language: string | null;
  /** IANA name. Null if nobody has said. */
  timeZone: string | null;
  createdAt: Date;
  /** Null if never, or if before the recording began. */
  firstLoginAt: Date | null;
  /** When the last session began. Null if never. */
  lastLoginAt: Date | null;
  /** PHC string. Null without a password. */
  passwordHash: string | null;
  mustChangePassword: boolean;
  /** Increases with each new password. */
  passwordEpoch: number;
  /** Increases with each change that ends sessions. */
  sessionEpoch: number;
  /** When password or identity and access to the mailbox were last proven together. Null if never. */
  credentialsProvenAt: Date | null;
  /** Has a second factor: TOTP, a passkey or both. */
  mfaEnabled: boolean;
  hasTotp: boolean;
  passkeyCount: number;
}

export type NewAccount = Pick<
  Account,
  "id" | "email" | "emailVerified" | "firstName" | "lastName" | "role" | "createdAt"
>;

declare const locked: unique symbol;

/** Read under a lock of the row, in the open transaction. Only the stores return one. */
export type Locked<T extends Partial<Account>> = T & { readonly [locked]: true };
