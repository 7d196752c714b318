/** How long things live, in seconds, as configured. */
export interface TokenLifetimes {
  accessTtlS: number;
  refreshIdleTtlS: number;
  sessionAbsoluteTtlS: number;
  refreshGraceS: number;
}

/** Clocks of two machines may differ by this much, in seconds (RFC 7519 §4.1.4 allows "some small leeway"). */
export const CLOCK_SKEW_S = 5;

/** When everything that was signed until `now` has expired everywhere, whatever the clocks say. */
export function accessTokensDeadAt(now: Date, accessTtlS: number): Date {
  return new Date(now.getTime() + (accessTtlS + 2 * CLOCK_SKEW_S) * 1_000);
}
