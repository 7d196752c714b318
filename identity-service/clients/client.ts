export type ClientStatus = "active" | "disabled";

export type CredentialKind = "public_key" | "secret" | "api_key";

/** An account of a program. */
export interface MachineClient {
  id: string;
  name: string;
  /** Null if that account is gone. */
  ownerId: string | null;
  permissions: string[];
  status: ClientStatus;
  createdAt: Date;
  changedAt: Date;
}

/** Without what is secret. */
export interface ClientCredential {
  id: string;
  kind: CredentialKind;
  name: string;
  /** `kid`, or `gh_<public id>`. Empty for a secret. */
  keyId: string;
  createdAt: Date;
  /** Exact to a minute. */
  lastUsedAt: Date | null;
}
