import { z } from "zod";
import type { CompactJws } from "../token-client/compact-jws.ts";
import { CLOCK_SKEW_S } from "./token-lifetimes.ts";

const uuid = z.string().regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
const seconds = z.int().min(0);

/** Every claim but `nbf` is required (RFC 9068 §2.2 and our own). Unknown ones pass: a newer version may add some. */
const claimsSchema = z.object({
  iss: z.string(),
  aud: z.string(),
  sub: uuid,
  sid: uuid,
  /** `<generation of the session>.<unguessable>`. */
  jti: z.string().regex(/^[1-9]\d{0,9}\.[A-Za-z0-9_-]{22}$/),
  iat: seconds,
  exp: seconds,
  nbf: seconds.optional(),
  role: z.enum(["USER", "ADMIN", "AUDITOR"]),
  amr: z.array(z.string().min(1).max(32)).min(1).max(8),
  auth_time: seconds,
});

/** The claims of an access token. */
export type AccessClaims = z.output<typeof claimsSchema>;

export interface AccessTokenRules {
  /** `iss`, and `aud`. */
  issuer: string;
  /** No token may live longer. */
  accessTtlS: number;
}

/** Which check refused the claims. */
export type ClaimsFailure = "claims" | "iss" | "aud" | "lifetime" | "iat" | "nbf" | "exp";

/**
 * Checks what an access token says, not who signed it.
 *
 * @param nowS seconds since the epoch.
 * @see RFC 9068 §4
 */
export function checkAccessClaims(
  payload: CompactJws["payload"],
  rules: AccessTokenRules,
  nowS: number,
): AccessClaims | ClaimsFailure {
  const { data: claims } = claimsSchema.safeParse(payload);
  if (claims === undefined) return "claims";
  if (claims.iss !== rules.issuer) return "iss";
  if (claims.aud !== rules.issuer) return "aud";
  if (claims.exp <= claims.iat || claims.exp - claims.iat > rules.accessTtlS) return "lifetime";
  if (claims.iat > nowS + CLOCK_SKEW_S) return "iat";
  if (claims.nbf !== undefined && claims.nbf > nowS + CLOCK_SKEW_S) return "nbf";
  if (nowS >= claims.exp + CLOCK_SKEW_S) return "exp";
  return claims;
}

/** The generation of the session that a token belongs to. */
export function generationOf(claims: Pick<AccessClaims, "jti">): number {
  return Number(claims.jti.slice(0, claims.jti.indexOf(".")));
}
