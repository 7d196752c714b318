import { type Decision, type Limit, type LimitedBucket, limitOf } from "#rate-limit/gcra.ts";
import type { RateLimit } from "#routes-file/routes-file.ts";

/** `device`: a known device on an unknown network. A call beyond its limit is counted as a stranger's. */
export type LimitScope = "address" | "user" | "device" | "total";

/** The name is the address, user id or device key; empty for `total`. */
export interface Bucket extends LimitedBucket {
  scope: LimitScope;
  /** Counts only strangers: not this network if it had a recent success. */
  exemptNetwork?: string;
}

export interface Verdict {
  /** Then nothing was counted. */
  refusedBy?: Bucket;
  /** 0 if there is room. */
  waitMs: number;
  /** No recent success of the caller's network or device. Set only where strangers are limited. */
  isStranger?: true;
  /** Of the caller's own buckets (address, user), the one with the least room. */
  own?: { limit: number; remaining: number; resetS: number };
}

export function limitFrom({ calls, perSeconds }: RateLimit): Limit {
  return limitOf(calls, perSeconds * 1_000);
}

/** The share of one of `replicas` that cannot count together, at least one call a window. */
export function sharesOf(buckets: readonly Bucket[], replicas: number): readonly Bucket[] {
  if (replicas === 1) return buckets;
  return buckets.map((bucket) => {
    const { burst, burstOffsetMs } = bucket.limit;
    return { ...bucket, limit: limitOf(Math.max(1, Math.floor(burst / replicas)), burstOffsetMs) };
  });
}

/** @param decisions in the order of the buckets. */
export function verdictOf(buckets: readonly Bucket[], decisions: readonly Decision[]): Verdict {
  const verdict: Verdict = { waitMs: 0 };
  for (let index = 0; index < buckets.length; index += 1) {
    const bucket = buckets[index] as Bucket;
    const { remaining, retryInMs, resetInMs } = decisions[index] as Decision;
    if (retryInMs > verdict.waitMs) {
      verdict.refusedBy = bucket;
      verdict.waitMs = retryInMs;
    }
    if (bucket.exemptNetwork !== undefined) verdict.isStranger = true;
    if (bucket.scope === "total" || bucket.scope === "device") continue;
    if (verdict.own !== undefined && verdict.own.remaining <= remaining) continue;
    verdict.own = { limit: bucket.limit.burst, remaining, resetS: Math.ceil(resetInMs / 1_000) };
  }
  return verdict;
}
