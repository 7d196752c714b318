export type Role = "USER" | "ADMIN" | "AUDITOR";

/** Who a verified access token speaks for. */
export interface Principal {
  /** UUID (`sub`). */
  userId: string;
  /** UUID (`sid`). */
  sessionId: string;
  /** The role when the session began; a change of role ends the session. */
  role: Role;
  /** `jti`. */
  tokenId: string;
  /** `kid` of the signing key. */
  keyId: string;
  /** How the user authenticated (RFC 8176). */
  amr: readonly string[];
  authTime: Date;
  issuedAt: Date;
  expiresAt: Date;
}

/** The verdict on a token. */
export type Verification =
  | { kind: "active"; principal: Principal }
  | {
      kind: "inactive";
      reason: "invalid" | "expired" | "revoked";
      /** Whom the token named while it was good; absent unless its signature was checked. For the audit log only. */
      subject?: Subject | undefined;
    };

export type Subject = Pick<Principal, "userId" | "sessionId" | "role">;

/** Verifies access tokens against token-service, from memory where that is safe. */
export interface TokenVerifier {
  /**
   * Synchronous when the answer is in memory.
   *
   * @param token what followed `Bearer `.
   * @param clientIp where it came from, so that no network takes the places of others. Optional.
   * @throws {DomainError} `service_unavailable` when it cannot be known: neither 200 nor 401 would be true.
   *   `too_many_requests` for a token that is not in memory, from a network that has brought too many bad ones.
   */
  verify(token: string, clientIp?: string): Verification | Promise<Verification>;
  /** Refuses a session here from now on: for the process that has just ended it, ahead of the stream. */
  refuseSession(sessionId: string): void;
  /** Throws until the revocation log is fully known, and while token-service is silent: a readiness check. */
  assertReady(): void;
  close(): void;
}
