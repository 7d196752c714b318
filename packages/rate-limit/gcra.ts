/** A limit for `decide`. */
export interface Limit {
  burst: number;
  /** Milliseconds; may be a fraction. */
  emissionIntervalMs: number;
  burstOffsetMs: number;
}

export interface LimitedBucket {
  /** One of a few, the same in every replica. */
  kind: string;
  name: string;
  limit: Limit;
}

export interface Decision {
  isAllowed: boolean;
  /** Calls that would be allowed now. */
  remaining: number;
  retryInMs: number;
  /** From now to the TAT, to be stored if the call is counted. */
  resetInMs: number;
}

/** Sums of fractions of a millisecond since the epoch are not exact in a double. */
export const ROUNDING_MS = 0.002;

export function limitOf(calls: number, windowMs: number): Limit {
  return { burst: calls, emissionIntervalMs: windowMs / calls, burstOffsetMs: windowMs };
}

/** For a bucket that several callers share. */
export function limitTimes(limit: Limit, times: number): Limit {
  return times === 1 ? limit : limitOf(limit.burst * times, limit.burstOffsetMs);
}

/**
 * Decides about one call by GCRA, the generic cell rate algorithm (ATM Forum Traffic Management 4.0 §4.4). A
 * limit allows `burst` calls at once, and one per emission interval in the long run. A bucket stores one
 * number, the TAT (theoretical arrival time), at which it is empty. Each counted call adds one emission
 * interval. A call that would move the TAT further ahead of now than the burst offset (burst times interval) is
 * refused and changes nothing. There is no fixed window at whose border twice the limit passes.
 * @param tatMs 0 or a past time means an empty bucket.
 */
export function decide(limit: Limit, tatMs: number, nowMs: number): Decision {
  const { emissionIntervalMs, burstOffsetMs } = limit;
  // Time without calls adds up to no more than one burst.
  const aheadMs = Math.max(tatMs - nowMs, 0);
  const excessMs = aheadMs + emissionIntervalMs - burstOffsetMs;
  const isAllowed = excessMs <= ROUNDING_MS;
  return {
    isAllowed,
    remaining: isAllowed ? Math.floor((ROUNDING_MS - excessMs) / emissionIntervalMs) : 0,
    retryInMs: isAllowed ? 0 : excessMs,
    resetInMs: isAllowed ? aheadMs + emissionIntervalMs : aheadMs,
  };
}

export function refund(limit: Limit, tatMs: number): number {
  return tatMs - limit.emissionIntervalMs;
}
