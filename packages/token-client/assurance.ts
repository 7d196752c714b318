import { DomainError, type StepUpDemand } from "#kit/values/errors.ts";

/** 1: one factor. 2: two factors. 3: a passkey with user verification. */
export type AssuranceLevel = 1 | 2 | 3;

export const ASSURANCE_LEVELS: readonly AssuranceLevel[] = [1, 2, 3];

const PREFIX = "urn:gatehouse:acr:";

/** The `acr` claim (RFC 9068 §2.2.1). */
export function acrOf(level: AssuranceLevel): string {
  return `${PREFIX}${level}`;
}

/** Undefined for an empty or unknown text. */
export function parseAcr(text: string): AssuranceLevel | undefined {
  return ASSURANCE_LEVELS.find((level) => acrOf(level) === text);
}

/** Claimed after a login without a passkey. */
export function levelFromAmr(amr: readonly string[]): AssuranceLevel {
  return amr.includes("mfa") ? 2 : 1;
}

export interface AssuranceDemand {
  acr: AssuranceLevel;
  /** Of the last proof of the session's level. */
  maxAgeSeconds?: number | undefined;
}

/** In the order in which a client should offer them, with the highest level that a step-up reaches by them. */
const STEP_UP_METHODS = [
  { method: "passkey", reaches: 3 },
  { method: "totp", reaches: 2 },
  { method: "recovery_code", reaches: 2 },
  { method: "password", reaches: 1 },
] as const satisfies { method: string; reaches: AssuranceLevel }[];

export type StepUpMethod = (typeof STEP_UP_METHODS)[number]["method"];

export function stepUpMethods(level: AssuranceLevel): StepUpMethod[] {
  return STEP_UP_METHODS.filter(({ reaches }) => reaches >= level).map(({ method }) => method);
}

/** The level that a step-up to a wanted one has to prove: a lower proof does not make a higher level fresh. */
export function stepUpTarget(wanted: AssuranceLevel, current: AssuranceLevel): AssuranceLevel {
  return wanted > current ? wanted : current;
}

/** Tolerated difference of two clocks (RFC 7519 §4.1.4). A proof further ahead is not fresh. */
export const CLOCK_SKEW_S = 5;

/**
 * By the claims alone.
 * @param nowMs time of token-service (`TokenVerifier.nowMs`): the clock of this machine may be wrong.
 * @throws {DomainError} `step_up_required`; `user_required` for a client, which has no step-up.
 */
export function assertAssured(
  demand: AssuranceDemand | undefined,
  { kind, acr, authTime }: { kind?: "user" | "client"; acr: AssuranceLevel; authTime: Date },
  nowMs: number,
): void {
  if (demand === undefined) return;
  if (kind === "client") throw new DomainError("user_required");
  const { maxAgeSeconds } = demand;
  const ageMs = nowMs - authTime.getTime();
  const isFresh =
    maxAgeSeconds === undefined || (ageMs >= -CLOCK_SKEW_S * 1_000 && ageMs <= maxAgeSeconds * 1_000);
  if (acr >= demand.acr && isFresh) return;
  const methods = stepUpMethods(stepUpTarget(demand.acr, acr));
  throw new DomainError("step_up_required", undefined, { details: { ...demand, methods } });
}

/** Carried by `assertAssured`'s error. */
export function stepUpDemandOf({ code, details }: DomainError): AssuranceDemand | undefined {
  return code === "step_up_required" ? (details as StepUpDemand | undefined) : undefined;
}

/** `WWW-Authenticate` (RFC 9470 §3). @param scheme of the call's token (RFC 9449 §7.1). */
export function stepUpChallenge(
  { acr, maxAgeSeconds }: AssuranceDemand,
  scheme: "Bearer" | "DPoP" = "Bearer",
): string {
  const age = maxAgeSeconds === undefined ? "" : `, max_age=${maxAgeSeconds}`;
  return `${scheme} error="insufficient_user_authentication", acr_values="${acrOf(acr)}"${age}`;
}
