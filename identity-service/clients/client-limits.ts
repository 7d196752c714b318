import { boundedCache } from "#kit/values/bounded-cache.ts";
import { DomainError } from "#kit/values/errors.ts";
import { networksOf } from "#kit/values/network-of.ts";
import { type LimitedBucket, limitOf, limitTimes } from "#rate-limit/gcra.ts";
import { MemorySource } from "#rate-limit/memory-source.ts";

const MINUTE_MS = 60_000;
/** Of a network; a signature check each at most. */
const FAILURES = limitOf(300, 5 * MINUTE_MS);
/**
 * One share for a client in a network where it has proven itself, and one for each secret that it has proven itself with there. A
 * neighbour that names the client can use up the first, but not those of secrets, which it does not know. Only the signature check
 * tells a forged assertion from a right one, so such a neighbour can shut out a client with a key.
 */
const OWN_FAILURES = limitOf(60, 5 * MINUTE_MS);
const PROOFS = limitOf(1_200, MINUTE_MS);
const MAX_KNOWN = 20_000;

interface Claim {
  clientId: string;
  clientIp: string;
  /** SHA-256. Undefined if the proof is a signature. */
  secretHash?: Buffer | undefined;
}

export interface ClientLimits {
  /** Counts an attempt as failed until `succeeded` or `giveBack`. @throws {DomainError} `too_many_requests`. */
  begin(attempt: Claim): Attempt;
}

interface Attempt {
  /** @throws {DomainError} `too_many_requests` if the client proves itself too often. */
  succeeded(clientId: string): void;
  /** The attempt ended without a verdict. */
  giveBack(): void;
}

/** Per replica. @param now milliseconds. */
export function createClientLimits(now: () => number): ClientLimits {
  const source = new MemorySource();
  const known = boundedCache<string, true>(MAX_KNOWN);

  function spend(buckets: readonly LimitedBucket[]): void {
    const refused = source.spend(buckets, now()).find(({ isAllowed }) => !isAllowed);
    if (refused !== undefined)
      throw new DomainError("too_many_requests", undefined, { retryAfterMs: Math.ceil(refused.retryInMs) });
  }

  return {
    begin({ clientId, clientIp, secretHash }) {
      const networks = networksOf(clientIp);
      const namesOf = (id: string) => {
        const pair = `${id} ${networks[0].name}`;
        return secretHash === undefined ? [pair] : [`${pair} ${secretHash.toString("base64url")}`, pair];
      };
      const own = namesOf(clientId).find((name) => known.has(name));
      const buckets =
        own !== undefined
          ? [{ kind: "own failures", name: own, limit: OWN_FAILURES }]
          : networks.map(({ name, times }) => ({
              kind: "failures",
              name,
              limit: limitTimes(FAILURES, times),
            }));
      spend(buckets);
      return {
        succeeded(provenId) {
          source.refund(buckets);
          for (const name of namesOf(provenId)) known.set(name, true);
          spend([{ kind: "proofs", name: provenId, limit: PROOFS }]);
        },
        giveBack: () => source.refund(buckets),
      };
    },
  };
}
