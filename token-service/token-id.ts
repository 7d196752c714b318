import { createHmac, timingSafeEqual } from "node:crypto";

/**
 * Derives a `jti` (128 bits in base64url) from 32 random bytes of the session, so that it can be made again, and a
 * stolen signing key alone cannot forge it.
 */
export function tokenId(secret: Buffer, purpose: string): string {
  return createHmac("sha256", secret).update(purpose).digest().subarray(0, 16).toString("base64url");
}

export function isTokenId(presented: string, secret: Buffer, purpose: string): boolean {
  const expected = Buffer.from(tokenId(secret, purpose));
  const given = Buffer.from(presented);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
