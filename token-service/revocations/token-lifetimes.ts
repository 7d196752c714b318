import { CLOCK_SKEW_S } from "#token-client/assurance.ts";

/** In seconds. */
export interface TokenLifetimes {
  accessTtlS: number;
  refreshIdleTtlS: number;
  sessionAbsoluteTtlS: number;
  refreshGraceS: number;
}

export const MAX_ACCESS_TTL_S = 3_600;

/** After this every replica signs with the new key. What claims to be signed later is not of token-service. */
export const KEY_HANDOVER_S = 60;

/** How long after its end a signing key may have signed an access token that is still accepted. */
export function retiredKeyLifeS(accessTtlS: number): number {
  return KEY_HANDOVER_S + accessTokenLifeS(accessTtlS);
}

/** Longest time for which a token may be accepted, clock skew included. */
export function accessTokenLifeS(accessTtlS: number): number {
  return accessTtlS + 2 * CLOCK_SKEW_S;
}
