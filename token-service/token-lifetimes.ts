/** In seconds. */
export interface TokenLifetimes {
  accessTtlS: number;
  refreshIdleTtlS: number;
  sessionAbsoluteTtlS: number;
  refreshGraceS: number;
}

/** Tolerated difference of two clocks (RFC 7519 §4.1.4). */
export const CLOCK_SKEW_S = 5;

export const MAX_ACCESS_TTL_S = 3_600;

/** Longest time for which a token may be accepted, clock skew included. */
export function accessTokenLifeS(accessTtlS: number): number {
  return accessTtlS + 2 * CLOCK_SKEW_S;
}
