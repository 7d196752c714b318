import { randomUUID } from "node:crypto";
import { isRoleName } from "#kit/values/access-names.ts";
import { DomainError } from "#kit/values/errors.ts";
import { type AssuranceLevel, CLOCK_SKEW_S } from "#token-client/assurance.ts";
import type {
  Principal,
  RequestVerifier,
  Role,
  TokenVerifier,
  Verification,
} from "#token-client/principal.ts";

/** Members are those of `Principal`. The others have a value of their own for each token. */
export type TestPrincipal =
  | ({ kind?: "user"; userId: string; role: Role } & Partial<
      Pick<Principal, "sessionId" | "acr" | "amr" | "authTime" | "expiresAt">
    >)
  | ({ kind: "client"; clientId: string; scopes: readonly string[] } & Partial<
      Pick<Principal, "sessionId" | "expiresAt">
    >);

const LIFE_MS = 900_000;
/** As after a login with a password, with a second factor, and with a passkey. */
const AMR: Record<AssuranceLevel, readonly string[]> = {
  1: ["pwd"],
  2: ["pwd", "otp", "mfa"],
  3: ["hwk", "user", "mfa"],
};

/**
 * For the tests of a service, in place of the verifier of `createVerifier`: it knows the tokens that it has issued itself, and
 * needs no token-service. The adapters apply their own rules to what it answers. Its clock is `Date`.
 */
export class TestVerifier implements TokenVerifier, RequestVerifier {
  readonly acceptsBound = false;
  /** False: as without token-service, and every call is a 503. */
  isAvailable = true;
  readonly #issued = new Map<string, Principal>();
  /** Sessions, and tokens of clients. */
  readonly #revokedIds = new Set<string>();

  /** @throws if `NODE_ENV` is `production`. */
  constructor() {
    if (process.env.NODE_ENV === "production")
      throw new Error("TestVerifier is for tests, and NODE_ENV is production: use createVerifier");
  }

  /** @returns an access token for `Authorization: Bearer`. @throws if no token could have such a principal. */
  issue(wanted: TestPrincipal): string {
    const token = `test-${randomUUID()}`;
    this.#issued.set(token, toPrincipal(wanted, Date.now()));
    return token;
  }

  /** As a logout: of a user it ends the session, with all of its tokens. Of a client it ends this token alone. */
  revoke(token: string): void {
    const { kind, sessionId, tokenId } = this.#principalOf(token);
    this.#revokedIds.add(kind === "client" ? tokenId : sessionId);
  }

  /** Of a client: its credential. */
  revokeSession(sessionId: string): void {
    this.#revokedIds.add(sessionId);
  }

  /** Ends the sessions that the user has now, as after a change of the role. */
  revokeUser(userId: string): void {
    for (const principal of this.#issued.values())
      if (principal.kind === "user" && principal.userId === userId) this.revokeSession(principal.sessionId);
  }

  /** As if the token's time were over. */
  expire(token: string): void {
    this.#issued.set(token, { ...this.#principalOf(token), expiresAt: new Date(0) });
  }

  verify(token: string): Verification {
    this.assertReady();
    const principal = this.#issued.get(token);
    if (principal === undefined) return { kind: "inactive", reason: "invalid" };
    const { kind, userId, clientId, sessionId, role, scopes, tokenId, expiresAt } = principal;
    const subject = { kind, userId, clientId, sessionId, role, scopes };
    if (this.#revokedIds.has(sessionId) || this.#revokedIds.has(tokenId))
      return { kind: "inactive", reason: "revoked", subject };
    if (this.nowMs() >= expiresAt.getTime() + CLOCK_SKEW_S * 1_000)
      return { kind: "inactive", reason: "expired", subject };
    return { kind: "active", principal };
  }

  refuseSession(sessionId: string): void {
    this.revokeSession(sessionId);
  }

  assertReady(): void {
    if (!this.isAvailable) throw new DomainError("service_unavailable");
  }

  nowMs(): number {
    return Date.now();
  }

  close(): void {
    this.isAvailable = false;
  }

  #principalOf(token: string): Principal {
    const principal = this.#issued.get(token);
    if (principal === undefined) throw new Error("this TestVerifier has not issued the token");
    return principal;
  }
}

/** @throws for what a verifier refuses also in an answer of token-service. */
function toPrincipal(wanted: TestPrincipal, nowMs: number): Principal {
  const issuedAt = new Date(nowMs);
  const { sessionId = randomUUID(), expiresAt = new Date(nowMs + LIFE_MS) } = wanted;
  const common = { sessionId, tokenId: randomUUID(), keyId: "test", issuedAt, expiresAt };
  if (sessionId === "") throw new Error("sessionId is empty");
  if (wanted.kind === "client") {
    const { clientId, scopes } = wanted;
    if (!clientId || !scopes?.length) throw new Error("a client needs a clientId and at least one scope");
    const client = { kind: "client", userId: "", clientId, scopes: [...scopes], role: "" } as const;
    return { ...common, ...client, amr: [], acr: 1, authTime: issuedAt };
  }
  const { userId, role, acr = 1, amr = AMR[acr], authTime = issuedAt } = wanted;
  if (!userId) throw new Error("a user needs a userId");
  if (!isRoleName(role)) throw new Error(`a user needs a role, named as USER or MERCHANT_CLERK, not ${role}`);
  if (amr === undefined) throw new Error(`acr is 1, 2 or 3, not ${acr}`);
  return { ...common, kind: "user", userId, clientId: "", scopes: [], role, amr, acr, authTime };
}
