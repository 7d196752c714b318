import { DomainError, ERROR_CATALOGUE, type ErrorCode } from "#kit/values/errors.ts";
import { stepUpChallenge, stepUpDemandOf } from "./assurance.ts";
import { schemeOf } from "./bearer-token.ts";

/** Who answers a refused call: the adapter, as the gateway does, or the application's own error handler. */
export type OnRefusal = "answer" | "next";

export const REFUSAL_TYPE = "application/json; charset=utf-8";

export interface HttpRefusal {
  statusCode: number;
  code: ErrorCode;
  headers: ReadonlyMap<string, string>;
  /** JSON, in bytes: frameworks then add nothing to the media type, and no schema of theirs takes members away. */
  body: Buffer;
}

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
const RETRY_LATER: ReadonlySet<number> = new Set([429, 503]);
const DEFAULT_RETRY_MS = 1_000;

/**
 * The answer to a refused call. Undefined for any other error, which is a defect.
 * @see RFC 6750 §3, RFC 9449 §7.1, RFC 9470 §3.
 */
export function httpRefusal(error: unknown, authorization: string | undefined): HttpRefusal | undefined {
  const statusCode = error instanceof DomainError ? STATUS[error.code] : undefined;
  if (!(error instanceof DomainError) || statusCode === undefined) return undefined;
  const { code, details, retryAfterMs = DEFAULT_RETRY_MS } = error;
  // The message of a 503 may name what is away.
  const message = statusCode >= 500 ? ERROR_CATALOGUE[code] : error.message;
  const body = { success: false, message, error: { code, ...(details && { details }) } };
  const headers = new Map([["cache-control", "no-store"]]);
  const challenge = challengeOf(error, statusCode, schemeOf(authorization));
  if (challenge !== undefined) headers.set("www-authenticate", challenge);
  if (RETRY_LATER.has(statusCode))
    headers.set("retry-after", `${Math.max(1, Math.ceil(retryAfterMs / 1_000))}`);
  return { statusCode, code, headers, body: Buffer.from(JSON.stringify(body)) };
}

/** The error for an error handler, which frameworks answer with the status that it has. */
export function withStatus(error: unknown, { statusCode }: HttpRefusal): unknown {
  return Object.assign(error as DomainError, { statusCode });
}

function challengeOf(error: DomainError, statusCode: number, scheme: "Bearer" | "DPoP"): string | undefined {
  if (error.code === "forbidden") return `${scheme} error="insufficient_scope"`;
  if (statusCode !== 401) return undefined;
  const demand = stepUpDemandOf(error);
  if (demand !== undefined) return stepUpChallenge(demand, scheme);
  if (error.code.startsWith("token_proof")) return 'DPoP error="invalid_token"';
  return error.code === "token_missing" ? "Bearer" : `${scheme} error="invalid_token"`;
}
