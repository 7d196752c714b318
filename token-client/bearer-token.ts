import { DomainError } from "../service-kit/errors.ts";
import type { Principal, TokenVerifier, Verification } from "./principal.ts";

const MAX_TOKEN_CHARACTERS = 4_096;
const SCHEME = /^bearer(?: |$)/i;
const CREDENTIALS = /^bearer ([A-Za-z0-9\-._~+/]+=*)$/i;

/**
 * The token of an `Authorization: Bearer …` header.
 *
 * @throws {DomainError} `token_missing` without such a header; `token_invalid` if what follows is no token.
 * @see RFC 6750 §2.1; RFC 9110 §11.1 for the scheme's case.
 */
export function bearerToken(authorization: string | undefined): string {
  if (authorization === undefined || !SCHEME.test(authorization)) throw new DomainError("token_missing");
  const token = CREDENTIALS.exec(authorization)?.[1];
  if (token === undefined || token.length > MAX_TOKEN_CHARACTERS) throw new DomainError("token_invalid");
  return token;
}

/**
 * Who a token speaks for.
 *
 * @throws {DomainError} `token_invalid` (also for a revoked token), `token_expired`, or `service_unavailable` when the
 *   token's state cannot be known.
 */
export async function principalOf(
  verifier: Pick<TokenVerifier, "verify">,
  token: string,
): Promise<Principal> {
  return verifiedPrincipal(await verifier.verify(token));
}

/** Who a verdict names. @throws {DomainError} `token_invalid` or `token_expired`. */
export function verifiedPrincipal(verification: Verification): Principal {
  if (verification.kind === "active") return verification.principal;
  throw new DomainError(verification.reason === "expired" ? "token_expired" : "token_invalid");
}
