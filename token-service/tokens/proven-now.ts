import { DomainError } from "#kit/values/errors.ts";
import { CLOCK_SKEW_S } from "#token-client/assurance.ts";
import { secondsOf } from "./sign-pair.ts";

/** A call takes at most 8 s. */
const MAX_PROOF_AGE_S = 30;

/**
 * The clock of another service's database dates a proof, and the life of what is proven counts from it. @returns seconds since the
 * epoch. @throws {DomainError} `service_unavailable` if the two clocks disagree, or the proof is old.
 */
export function assertProvenNow(provenAt: Date, now: Date): number {
  const provenAtS = assertNotAhead(provenAt, now);
  if (secondsOf(now) - provenAtS > MAX_PROOF_AGE_S) throw notOfThisMoment();
  return provenAtS;
}

/**
 * Of a login, whose first factor may be minutes old: an older proof grants less. @returns seconds since the epoch.
 * @throws {DomainError} `service_unavailable` if the other service's clock is ahead.
 */
export function assertNotAhead(provenAt: Date, now: Date): number {
  const provenAtS = secondsOf(provenAt);
  if (provenAtS > secondsOf(now) + CLOCK_SKEW_S) throw notOfThisMoment();
  return provenAtS;
}

function notOfThisMoment(): DomainError {
  return new DomainError("service_unavailable", "The proof is not of this moment");
}
