import { createHmac, timingSafeEqual } from "node:crypto";

/** A `jti` (128 bits in base64url) that can be made again, but not with a stolen signing key alone. */
export function tokenId(secret: Buffer, purpose: string): string {
  return createHmac("sha256", secret).update(purpose).digest().subarray(0, 16).toString("base64url");
}

export function isTokenId(presented: string, secret: Buffer, purpose: string): boolean {
  const expected = Buffer.from(tokenId(secret, purpose));
  const given = Buffer.from(presented);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
