const SCHEME = /^bearer(?: |$)/i;
const CREDENTIALS = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;

/**
 * The token of an `Authorization: Bearer …` header, as the gateway reads it.
 *
 * @returns `missing` without such a header; `malformed` if what follows the scheme is no token, as when several
 *   headers were joined to one.
 * @see RFC 6750 §2.1; RFC 9110 §11.1 for the scheme's case.
 */
export function readBearerToken(
  authorization: string | undefined,
): { token: string } | "missing" | "malformed" {
  if (authorization === undefined || !SCHEME.test(authorization)) return "missing";
  const token = CREDENTIALS.exec(authorization)?.[1];
  return token === undefined ? "malformed" : { token };
}
