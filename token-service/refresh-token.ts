import { z } from "zod";
import type { CompactJws } from "../token-client/compact-jws.ts";
import { CLOCK_SKEW_S } from "./token-lifetimes.ts";

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

/** The claims of a refresh token. When it ends is decided by the session's row, not by `exp`. */
export type RefreshClaims = z.output<typeof claimsSchema>;

/** Refresh tokens have an audience of their own, so that neither kind passes for the other. */
export function refreshAudience(issuer: string): string {
  return `${issuer}/auth/refresh`;
}

/**
 * Checks what a refresh token says, not who signed it.
 *
 * @param nowS seconds since the epoch.
 * @returns undefined if it is not a refresh token of this issuer, or not yet one.
 */
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
