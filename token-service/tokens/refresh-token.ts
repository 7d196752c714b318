import { createHmac, createSecretKey, timingSafeEqual } from "node:crypto";
import { z } from "zod";
import { CLOCK_SKEW_S } from "#token-client/assurance.ts";
import type { CompactJws } from "#token-client/compact-jws.ts";

const uuid = z.string().regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);

const claimsSchema = z.object({
  iss: z.string(),
  aud: z.string(),
  sub: uuid,
  sid: uuid,
  jti: z.string().regex(/^[A-Za-z0-9_-]{22}$/),
  gen: z.int().min(1).max(2_147_483_647),
  iat: z.int().min(0),
  exp: z.int().min(0),
  nbf: z.int().min(0).optional(),
});

/** The session's row decides the end, not `exp`. */
export type RefreshClaims = z.output<typeof claimsSchema>;

/** Keeps access and refresh tokens apart. */
export function refreshAudience(issuer: string): string {
  return `${issuer}/auth/refresh`;
}

/** Does not check the signature. @param nowS seconds since the epoch. */
export function checkRefreshClaims(
  payload: CompactJws["payload"],
  issuer: string,
  nowS: number,
): RefreshClaims | undefined {
  const { data: claims } = claimsSchema.safeParse(payload);
  const isOurs = claims?.iss === issuer && claims.aud === refreshAudience(issuer);
  const hasBegun = (claims?.nbf ?? 0) <= nowS + CLOCK_SKEW_S;
  return isOurs && hasBegun ? claims : undefined;
}

/** A `jti` (128 bits in base64url) that can be made again, but not with a stolen signing key alone. */
export function tokenId(secret: Buffer, purpose: string): string {
  // With plain bytes Node takes three times as long.
  const key = createSecretKey(secret);
  return createHmac("sha256", key).update(purpose).digest().subarray(0, 16).toString("base64url");
}

export function isTokenId(presented: string, secret: Buffer, purpose: string): boolean {
  const expected = Buffer.from(tokenId(secret, purpose));
  const given = Buffer.from(presented);
  return given.length === expected.length && timingSafeEqual(given, expected);
}
