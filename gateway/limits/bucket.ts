import { type Decision, type Limit, type LimitedBucket, limitOf } from "../../rate-limit/gcra.ts";
import type { RateLimit } from "../../routes-file/routes-file.ts";

/**
 * What calls are counted by. `device`: a known device on an unknown network. A full device bucket refuses nothing, but the
 * call is then counted as a stranger's.
 */
export type LimitScope = "address" | "user" | "device" | "total";

/** What calls are counted in. Its name is the address, user id or device key; empty for `total`. */
export interface Bucket extends LimitedBucket {
  scope: LimitScope;
  /** Counts only strangers: the call is not counted if this network is known for a recent success. */
  exemptNetwork?: string;
}

/** The result of counting a call. */
export interface Verdict {
  /** The bucket that has no room, if there is one: then nothing was counted. */
  refusedBy?: Bucket;
  /** Until there is room; 0 if there is. */
  waitMs: number;
  /** How the caller's own bucket (address or user) stands, the one with the least room. */
  own?: { limit: number; remaining: number; resetS: number };
}

/** A limit of the configuration. */
export function limitFrom({ calls, perSeconds }: RateLimit): Limit {
  return limitOf(calls, perSeconds * 1_000);
}

/** Buckets with the share of one of `replicas` that cannot count together. No share is less than one call a window. */
export function sharesOf(buckets: readonly Bucket[], replicas: number): readonly Bucket[] {
  if (replicas === 1) return buckets;
  return buckets.map((bucket) => {
    const { burst, burstOffsetMs } = bucket.limit;
    return { ...bucket, limit: limitOf(Math.max(1, Math.floor(burst / replicas)), burstOffsetMs) };
  });
}

/** @param decisions about each of the buckets in turn. */
export function verdictOf(buckets: readonly Bucket[], decisions: readonly Decision[]): Verdict {
  const verdict: Verdict = { waitMs: 0 };
  for (let index = 0; index < buckets.length; index += 1) {
    const bucket = buckets[index] as Bucket;
    const { remaining, retryInMs, resetInMs } = decisions[index] as Decision;
    if (retryInMs > verdict.waitMs) {
      verdict.refusedBy = bucket;
      verdict.waitMs = retryInMs;
    }
    if (bucket.scope === "total" || bucket.scope === "device") continue;
    if (verdict.own !== undefined && verdict.own.remaining <= remaining) continue;
    verdict.own = { limit: bucket.limit.burst, remaining, resetS: Math.ceil(resetInMs / 1_000) };
  }
  return verdict;
}
