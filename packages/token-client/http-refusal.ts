import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { stepUpChallenge, stepUpDemandOf } from "./assurance.ts";
import { schemeOf } from "./bearer-token.ts";

/** For applications without their own error handler. */
const STATUS: Partial<Record<ErrorCode, number>> = {
  token_missing: 401,
  token_invalid: 401,
  token_expired: 401,
  token_proof_missing: 401,
  token_proof_invalid: 401,
  step_up_required: 401,
  forbidden: 403,
  user_required: 403,
  too_many_requests: 429,
  service_unavailable: 503,
};

/**
 * Gives a refusal the status that frameworks read off an error, and the answer its headers. Any other error stays as it is.
 * @see RFC 6750 §3, RFC 9449 §7.1, RFC 9470 §3.
 */
export function toHttpRefusal(
  error: unknown,
  authorization: string | undefined,
  setHeader: (name: string, value: string) => void,
): unknown {
  if (!(error instanceof DomainError)) return error;
  const statusCode = STATUS[error.code] ?? 500;
  if (statusCode === 401) setHeader("www-authenticate", challengeOf(error, schemeOf(authorization)));
  if (error.retryAfterMs !== undefined) setHeader("retry-after", `${Math.ceil(error.retryAfterMs / 1_000)}`);
  return Object.assign(error, { statusCode });
}

function challengeOf(error: DomainError, scheme: "Bearer" | "DPoP"): string {
  const demand = stepUpDemandOf(error);
  if (demand !== undefined) return stepUpChallenge(demand, scheme);
  if (error.code.startsWith("token_proof")) return 'DPoP error="invalid_token"';
  return error.code === "token_missing" ? "Bearer" : `${scheme} error="invalid_token"`;
}
