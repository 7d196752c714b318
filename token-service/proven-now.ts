import { DomainError } from "../service-kit/errors.ts";
import { CLOCK_SKEW_S } from "./token-lifetimes.ts";

/** A call takes at most 8 s. */
const MAX_PROOF_AGE_S = 30;

/**
 * The clock of another service's database dates a proof, and the life of what is proven counts from it. @returns seconds since the
 * epoch. @throws {DomainError} `service_unavailable` if the two clocks disagree, or the proof is old.
 */
export function assertProvenNow(provenAt: Date, now: Date): number {
  const provenAtS = Math.floor(provenAt.getTime() / 1_000);
  const nowS = Math.floor(now.getTime() / 1_000);
  if (nowS - provenAtS > MAX_PROOF_AGE_S || provenAtS > nowS + CLOCK_SKEW_S)
    throw new DomainError("service_unavailable", "The proof of the client is not of this moment");
  return provenAtS;
}
