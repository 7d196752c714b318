import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * The `jti` of a session's token: derived from a secret of the session's row, so that it can be made again, and
 * so that somebody with a stolen signing key still cannot make a refresh token.
 *
 * @param secret  32 random bytes of the session.
 * @param purpose what tells this token from the session's others.
 * @returns 22 base64url characters (128 bits).
 */
export function tokenId(secret: Buffer, purpose: string): string {
  return createHmac("sha256", secret).update(purpose).digest().subarray(0, 16).toString("base64url");
}

export function isTokenId(presented: string, secret: Buffer, purpose: string): boolean {
  const expected = Buffer.from(tokenId(secret, purpose));
  const given = Buffer.from(presented);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
