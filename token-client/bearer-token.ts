import { DomainError } from "../service-kit/errors.ts";
import type { Principal, TokenVerifier, Verification } from "./principal.ts";

const MAX_TOKEN_CHARACTERS = 4_096;
const SCHEME = /^bearer(?: |$)/i;
const CREDENTIALS = /^bearer ([A-Za-z0-9\-._~+/]+=*)$/i;

/** @throws {DomainError} `token_missing` or `token_invalid`. @see RFC 6750 §2.1. */
export function bearerToken(authorization: string | undefined): string {
  if (authorization === undefined || !SCHEME.test(authorization)) throw new DomainError("token_missing");
  const token = CREDENTIALS.exec(authorization)?.[1];
  if (token === undefined || token.length > MAX_TOKEN_CHARACTERS) throw new DomainError("token_invalid");
  return token;
}

/** @throws {DomainError} `token_invalid` (also if revoked), `token_expired`, or `service_unavailable`. */
export async function verifyBearer(
  verifier: Pick<TokenVerifier, "verify">,
  token: string,
): Promise<Principal> {
  return verifiedPrincipal(await verifier.verify(token));
}

export function verifiedPrincipal(verification: Verification): Principal {
  if (verification.kind === "active") return verification.principal;
  throw new DomainError(verification.reason === "expired" ? "token_expired" : "token_invalid");
}
