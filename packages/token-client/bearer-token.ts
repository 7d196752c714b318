import { DomainError } from "#kit/values/errors.ts";
import { MAX_TOKEN_CHARACTERS } from "./compact-jws.ts";
import type { Principal, RequestVerifier, Verification } from "./principal.ts";

const BEARER = /^bearer(?: |$)/i;
const SCHEME = /^(?:bearer|dpop)(?: |$)/i;
const CREDENTIALS = /^(?:(bearer)|dpop) ([A-Za-z0-9\-._~+/]+=*)$/i;

export interface PresentedToken {
  text: string;
  /** RFC 9449 §7.1. Otherwise it came as a bearer token. */
  isDpop: boolean;
}

/** @throws {DomainError} `token_missing` or `token_invalid`. @see RFC 6750 §2.1. */
export function presentedToken(authorization: string | undefined): PresentedToken {
  if (authorization === undefined || !SCHEME.test(authorization)) throw new DomainError("token_missing");
  const [, bearer, text] = CREDENTIALS.exec(authorization) ?? [];
  if (text === undefined || text.length > MAX_TOKEN_CHARACTERS) throw new DomainError("token_invalid");
  return { text, isDpop: bearer === undefined };
}

/** Of the call, for its challenge (RFC 9449 §7.1). */
export function schemeOf(authorization: string | undefined): "Bearer" | "DPoP" {
  return /^dpop /i.test(authorization ?? "") ? "DPoP" : "Bearer";
}

/** A token of another scheme is missing. @throws {DomainError} `token_missing` or `token_invalid`. */
export function bearerToken(authorization: string | undefined): string {
  const { text, isDpop } = presentedToken(authorization);
  if (isDpop) throw new DomainError("token_missing");
  return text;
}

/** RFC 9449 §5. A token of a certificate is sent as a bearer token (RFC 8705 §3). */
export function tokenTypeOf(confirmation: Principal["confirmation"]): "Bearer" | "DPoP" {
  return confirmation !== undefined && confirmation.jkt !== "" ? "DPoP" : "Bearer";
}

/** RFC 9449 §7.1, §7.2. @throws {DomainError} */
export function assertScheme({ isDpop }: PresentedToken, principal: Pick<Principal, "confirmation">): void {
  const isBound = tokenTypeOf(principal.confirmation) === "DPoP";
  if (isBound && !isDpop) throw new DomainError("token_proof_missing");
  if (isDpop && !isBound)
    throw new DomainError(
      "token_proof_invalid",
      "The access token is not bound to a key: send it as a Bearer token.",
    );
}

/** All values: of several, Node.js shows the first alone. */
export function authorizationsOf({ rawHeaders }: { rawHeaders: readonly string[] }): string[] {
  return rawHeaders.filter(
    (_value, index) => index % 2 === 1 && rawHeaders[index - 1]?.toLowerCase() === "authorization",
  );
}

/**
 * Of a bound token only the scheme is checked, because only a verifier with `boundTokens: "checked"` accepts one. For others
 * `DPoP` is another scheme.
 * @param authorization all values of the header: of several nobody knows which counts.
 * @throws {DomainError} `token_missing`, `token_invalid` (also if revoked), `token_expired`, `token_proof_missing`,
 *   `token_proof_invalid`, `too_many_requests` or `service_unavailable`.
 */
export async function verifyAuthorization(
  verifier: RequestVerifier,
  authorization: readonly string[],
  clientIp?: string,
): Promise<Principal> {
  const presented = onlyToken(authorization, verifier.acceptsBound);
  const principal = verifiedPrincipal(await verifier.verify(presented.text, clientIp));
  assertScheme(presented, principal);
  return principal;
}

function onlyToken(authorization: readonly string[], acceptsBound: boolean): PresentedToken {
  const scheme = acceptsBound ? SCHEME : BEARER;
  if (!authorization.some((value) => scheme.test(value))) throw new DomainError("token_missing");
  if (authorization.length > 1) throw new DomainError("token_invalid");
  return presentedToken(authorization[0]);
}

export function verifiedPrincipal(verification: Verification): Principal {
  if (verification.kind === "active") return verification.principal;
  throw new DomainError(verification.reason === "expired" ? "token_expired" : "token_invalid");
}

/** `gh_<public id>_<secret>`: a lookup id that its issuer can recognise, and 256 bits in base64url. */
const API_KEY = /^gh_([0-9a-f]{32})_[A-Za-z0-9_-]{43}$/;

export function isApiKey(text: string): boolean {
  return text.startsWith("gh_") && API_KEY.test(text);
}

/** @throws if the text is not an API key. */
export function publicIdOf(apiKey: string): string {
  const [, publicId] = API_KEY.exec(apiKey) ?? [];
  if (publicId === undefined) throw new Error("not an API key");
  return publicId;
}
