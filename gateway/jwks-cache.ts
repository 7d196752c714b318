import { z } from "zod";
import type { CallContext } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";

/** A key set as token-service gives it. */
export interface Jwks {
  /** JSON text of a JWK Set. */
  json: string;
  /** How long a reader may keep it. */
  maxAgeS: number;
}

export interface JwksCache {
  /** @throws {DomainError} `service_unavailable` if there is no set that is fresh enough. */
  get(context: CallContext): Promise<Jwks>;
}

/** How old the last good set may be while token-service cannot be asked. */
const MAX_STALE_MS = 10 * 60_000;
/** After a failure, how long the last good set is served without asking again. */
const RETRY_AFTER_MS = 1_000;

/** Only what a verifier needs; a set with a private or symmetric member in it is not passed on. */
const publicKey = z
  .looseObject({ kty: z.enum(["OKP", "EC", "RSA"]), kid: z.string().min(1) })
  .refine((key) => ["d", "p", "q", "dp", "dq", "qi", "oth", "k"].every((member) => !(member in key)));
const publicKeySet = z.strictObject({ keys: z.array(publicKey).min(1) });

/** Keeps the key set for its maximum age. One question is in flight at most, whoever asks. */
export function createJwksCache(
  fetchJwks: (context: CallContext) => Promise<Jwks>,
  nowMs: () => number,
): JwksCache {
  let known: { jwks: Jwks; fetchedMs: number } | undefined;
  let fetching: Promise<Jwks> | undefined;
  let failedMs = Number.NEGATIVE_INFINITY;

  async function refresh(context: CallContext): Promise<Jwks> {
    try {
      const jwks = await fetchJwks(context);
      publicKeySet.parse(JSON.parse(jwks.json));
      known = { jwks, fetchedMs: nowMs() };
      return jwks;
    } catch (error) {
      failedMs = nowMs();
      const stale = lastGood();
      if (stale !== undefined) return stale;
      throw error instanceof DomainError
        ? error
        : new DomainError("service_unavailable", undefined, { cause: error });
    } finally {
      fetching = undefined;
    }
  }

  /** The known set with what is left of its age: at most, none. */
  function lastGood(): Jwks | undefined {
    if (known === undefined) return undefined;
    const ageMs = nowMs() - known.fetchedMs;
    const { json, maxAgeS } = known.jwks;
    if (ageMs >= Math.max(MAX_STALE_MS, maxAgeS * 1_000)) return undefined;
    return { json, maxAgeS: Math.max(0, maxAgeS - Math.floor(ageMs / 1_000)) };
  }

  return {
    async get(context) {
      const good = lastGood();
      const isFresh = good !== undefined && good.maxAgeS > 0;
      const hasJustFailed = nowMs() - failedMs < RETRY_AFTER_MS;
      if (good !== undefined && (isFresh || hasJustFailed)) return good;
      fetching ??= refresh(context);
      return fetching;
    },
  };
}
