/** A limit: `burst` calls at once, and in the long run one call per emission interval. Made by `limitOf`. */
export interface Limit {
  burst: number;
  /** Milliseconds; may be a fraction. */
  emissionIntervalMs: number;
  /** How far the TAT (see `decide`) may be ahead of now: the emission interval times the burst. */
  burstOffsetMs: number;
}

/** A bucket: what counts calls, and the limit that it enforces. */
export interface LimitedBucket {
  /** What calls it counts: there are few kinds, and the same ones in every replica. */
  kind: string;
  /** Whose calls it counts. */
  name: string;
  limit: Limit;
}

/** Whether a call is allowed, and how its bucket stands afterwards. */
export interface Decision {
  isAllowed: boolean;
  /** How many more calls would be allowed now. */
  remaining: number;
  /** Until this call would be allowed; 0 if it is. */
  retryInMs: number;
  /** Until the bucket is empty: from now to the TAT, which is to be stored if the call is counted. */
  resetInMs: number;
}

/** A TAT is a sum of fractions of a millisecond since the epoch, which are not exact in a double. */
export const ROUNDING_MS = 0.002;

/** `calls` at once, and as many in each window as it passes. */
export function limitOf(calls: number, windowMs: number): Limit {
  return { burst: calls, emissionIntervalMs: windowMs / calls, burstOffsetMs: windowMs };
}

/** `times` as many calls in the same time, for a bucket that many share. */
export function limitTimes(limit: Limit, times: number): Limit {
  return times === 1 ? limit : limitOf(limit.burst * times, limit.burstOffsetMs);
}

/**
 * Decides about one call by GCRA, the generic cell rate algorithm. It stores one number for each bucket: the TAT
 * (theoretical arrival time), at which the bucket is empty again. Each counted call moves the TAT on by one emission
 * interval. A call has no room if that would move the TAT further ahead of now than the burst offset; then the TAT stays
 * as it is. So there is no fixed window at whose border twice the limit gets through.
 *
 * The same arithmetic for Redis is `LUA_GCRA`.
 *
 * @param tatMs the stored TAT. 0, or any time in the past: the bucket is empty.
 * @param nowMs by the same clock.
 * @see ATM Forum Traffic Management 4.0 §4.4.
 */
export function decide(limit: Limit, tatMs: number, nowMs: number): Decision {
  const { emissionIntervalMs, burstOffsetMs } = limit;
  // A TAT in the past counts as now: time without calls adds up to no more than one burst.
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

/** @returns the TAT after a counted call is taken back. */
export function refund(limit: Limit, tatMs: number): number {
  return tatMs - limit.emissionIntervalMs;
}
