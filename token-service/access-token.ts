import { z } from "zod";
import {
  ASSURANCE_LEVELS,
  type AssuranceLevel,
  acrOf,
  levelFromAmr,
  parseAcr,
} from "../token-client/assurance.ts";
import type { CompactJws } from "../token-client/compact-jws.ts";
import { CLOCK_SKEW_S } from "./token-lifetimes.ts";

const uuid = z.string().regex(/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/);
const seconds = z.int().min(0);

/** RFC 9068 §2.2. Unknown claims pass, for newer versions. */
const claimsSchema = z.object({
  iss: z.string(),
  aud: z.string(),
  sub: uuid,
  sid: uuid,
  /** `<session generation>.<unguessable value>`. */
  jti: z.string().regex(/^[1-9]\d{0,9}\.[A-Za-z0-9_-]{22}$/),
  iat: seconds,
  exp: seconds,
  nbf: seconds.optional(),
  role: z.enum(["USER", "ADMIN", "AUDITOR"]),
  amr: z.array(z.string().min(1).max(32)).min(1).max(8),
  /** Absent from tokens of the version before. */
  acr: z.enum(ASSURANCE_LEVELS.map(acrOf)).optional(),
  auth_time: seconds,
});

export type AccessClaims = z.output<typeof claimsSchema>;

export interface AccessTokenRules {
  /** Value of `iss` and `aud`. */
  issuer: string;
  accessTtlS: number;
}

export type ClaimsFailure = "claims" | "iss" | "aud" | "lifetime" | "iat" | "nbf" | "exp";

/** Does not check the signature. @param nowS seconds since the epoch. */
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

export function assuranceOf({ acr = "", amr }: Pick<AccessClaims, "acr" | "amr">): AssuranceLevel {
  return parseAcr(acr) ?? levelFromAmr(amr);
}

export function generationOf(claims: Pick<AccessClaims, "jti">): number {
  return Number(claims.jti.slice(0, claims.jti.indexOf(".")));
}
