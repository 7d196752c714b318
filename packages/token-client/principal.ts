import type { Confirmation } from "#kit/rpc/call-context.ts";
import type { AssuranceLevel } from "./assurance.ts";

/** Named as in `access.yaml`: `USER`, `MERCHANT_CLERK`. */
export type Role = string;

export interface Principal {
  kind: "user" | "client";
  /** Empty for clients: what a program makes is no user's. */
  userId: string;
  /** Of a client: its credential's id. */
  sessionId: string;
  /** A role change ends the session. Empty for clients. */
  role: Role;
  /** Empty for users. */
  clientId: string;
  /** Permissions that a client was granted. Empty for users. */
  scopes: readonly string[];
  tokenId: string;
  /** `tokenId` of the token that this one was exchanged for, and whose revocation ends it. Absent for others. */
  originTokenId?: string | undefined;
  /** `kid` of that token. Absent also if it was an API key. */
  originKeyId?: string | undefined;
  /** `kid` of the signing key. Empty for an API key. */
  keyId: string;
  /** Authentication methods (RFC 8176). */
  amr: readonly string[];
  acr: AssuranceLevel;
  /** Last moment at which the session reached `acr`. */
  authTime: Date;
  issuedAt: Date;
  expiresAt: Date;
  /** What a call with the token must prove. Absent: nothing. */
  confirmation?: Confirmation | undefined;
}

export type Verification =
  | { kind: "active"; principal: Principal }
  | {
      kind: "inactive";
      reason: "invalid" | "expired" | "revoked";
      /** Absent unless the signature was checked. */
      subject?: Subject | undefined;
    };

export type Subject = Pick<Principal, "kind" | "userId" | "clientId" | "sessionId" | "role" | "scopes">;

/** The user's id, or the client's: for limits and logs, where each counts for itself. */
export function callerIdOf({
  kind,
  userId,
  clientId,
}: Pick<Subject, "kind" | "userId" | "clientId">): string {
  return kind === "client" ? clientId : userId;
}

export interface TokenVerifier {
  /** @throws {DomainError} `service_unavailable` without a certain verdict, or `too_many_requests`. */
  verify(token: string, clientIp: string | undefined): Verification | Promise<Verification>;
  /** Takes effect before the revocation stream reports the end. */
  refuseSession(sessionId: string): void;
  /**
   * For readiness. After a revocation of an unknown kind it goes on to pass: every token then needs a call, which works.
   * @throws {DomainError} `service_unavailable` until all revocations have been read, and after 3 s of silence.
   */
  assertReady(): void;
  /**
   * Time of token-service in milliseconds since 1970, at most 3 s ahead: for `assertAssured`. The clock of this machine, which may
   * be wrong, counts before the first message of token-service, and in silence if it is later.
   */
  nowMs(): number;
  close(): void;
}

/** What the adapters of frameworks need. */
export interface RequestVerifier extends Pick<TokenVerifier, "verify" | "nowMs"> {
  /** Whether tokens that are bound to a key are accepted. */
  readonly acceptsBound: boolean;
}
