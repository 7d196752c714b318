import type { RateLimit } from "../../routes-file/routes-file.ts";

/**
 * What calls are counted by. `device`: a known device on an unknown network. A full device bucket refuses nothing, but the
 * call is then counted as a stranger's.
 */
export type LimitScope = "address" | "user" | "device" | "total";

/** What calls are counted in. */
export interface Bucket {
  /** What calls it counts: few, and the same in every gateway. */
  kind: string;
  /** Depends on the scope: the address, user id or device key. Empty for `total`. */
  name: string;
  scope: LimitScope;
  limit: RateLimit;
  /** Counts only strangers: the call is not counted if this network is known for a recent success. */
  spares?: string;
}

/** What counting a call came to. */
export interface Verdict {
  /** The bucket that has no room, if there is one: then nothing was counted. */
  refusedBy?: Bucket;
  /** Until there is room; 0 if there is. */
  waitMs: number;
  /** How the caller's own bucket (address or user) stands, the one with the least room. */
  own?: { limit: number; remaining: number; resetS: number };
}

/** Decimals are rounded on the way. */
const HAIR_MS = 0.002;

/** How long one call fills a bucket, for one of `replicas` that share it. No share is less than one call a window. */
export function intervalMs({ calls, perSeconds }: RateLimit, replicas: number): number {
  return (perSeconds * 1_000) / Math.max(1, Math.floor(calls / replicas));
}

/** @param debtMs until the bucket is empty, this call included. */
export function overflowMs({ perSeconds }: RateLimit, debtMs: number): number {
  const overMs = debtMs - perSeconds * 1_000;
  return overMs > HAIR_MS ? overMs : 0;
}

/**
 * A bucket (GCRA, the leaky bucket as a meter of ATM Forum TM 4.0 §4.4) is one number: when it will be empty. A call
 * moves that on by one interval, and has no room if it would be further off than the window.
 *
 * @param debtsMs of each bucket in turn, until it is empty, this call included.
 */
export function verdictOf(buckets: readonly Bucket[], debtsMs: readonly number[], replicas: number): Verdict {
  const verdict: Verdict = { waitMs: 0 };
  for (const [index, bucket] of buckets.entries()) {
    const { limit, scope } = bucket;
    const debtMs = debtsMs[index] ?? 0;
    const waitMs = overflowMs(limit, debtMs);
    if (waitMs > verdict.waitMs) {
      verdict.refusedBy = bucket;
      verdict.waitMs = waitMs;
    }
    if (scope === "total" || scope === "device") continue;
    const room = (limit.perSeconds * 1_000 - debtMs + HAIR_MS) / intervalMs(limit, replicas);
    const remaining = Math.max(0, Math.floor(room));
    if (verdict.own !== undefined && verdict.own.remaining <= remaining) continue;
    verdict.own = { limit: limit.calls, remaining, resetS: Math.ceil(debtMs / 1_000) };
  }
  return verdict;
}
