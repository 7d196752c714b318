/** How long things live, in seconds, as configured. */
export interface TokenLifetimes {
  accessTtlS: number;
  refreshIdleTtlS: number;
  sessionAbsoluteTtlS: number;
  refreshGraceS: number;
}

/** Clocks of two machines may differ by this much, in seconds (RFC 7519 §4.1.4 allows "some small leeway"). */
export const CLOCK_SKEW_S = 5;

/** The longest life of an access token that any configuration allows, in seconds. */
export const MAX_ACCESS_TTL_S = 3_600;

/** How long an access token that was signed just now may be accepted somewhere, whatever the clocks say, in seconds. */
export function accessTokenLifeS(accessTtlS: number): number {
  return accessTtlS + 2 * CLOCK_SKEW_S;
}
