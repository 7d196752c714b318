import type { ErrorCode } from "#kit/values/errors.ts";
import { schemeOf } from "#token-client/bearer-token.ts";
import { DPOP_ALGORITHMS } from "../proofs/dpop-proof.ts";

export const HTTP_STATUS: Record<ErrorCode, number> = {
  validation_failed: 400,
  bad_request: 400,
  password_too_short: 400,
  password_too_common: 400,
  password_contains_email: 400,
  password_unchanged: 400,
  verification_token_invalid: 400,
  reset_token_invalid: 400,
  oauth_state_invalid: 400,
  oauth_code_invalid: 400,
  oauth_failed: 400,
  invalid_scope: 400,
  unauthorized_client: 400,
  invalid_dpop_proof: 400,
  use_dpop_nonce: 400,
  unsupported_grant_type: 400,
  unsupported_token_type: 400,
  token_missing: 401,
  token_invalid: 401,
  token_expired: 401,
  token_proof_missing: 401,
  token_proof_invalid: 401,
  token_proof_needs_nonce: 401,
  step_up_required: 401,
  invalid_credentials: 401,
  mfa_code_invalid: 401,
  mfa_token_invalid: 401,
  step_up_token_invalid: 401,
  password_change_token_invalid: 401,
  passkey_invalid: 401,
  invalid_client: 401,
  refresh_token_invalid: 401,
  refresh_token_reused: 401,
  device_proof_missing: 401,
  mfa_enrollment_required: 403,
  forbidden: 403,
  origin_not_allowed: 403,
  role_not_defined: 403,
  user_required: 403,
  email_not_verified: 403,
  oauth_denied: 403,
  reauthentication_required: 403,
  approval_required: 403,
  approval_mismatch: 403,
  approval_expired: 403,
  approval_used: 403,
  provider_not_found: 404,
  not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  email_already_registered: 409,
  mfa_already_enabled: 409,
  mfa_required: 409,
  link_required: 409,
  already_linked: 409,
  last_credential: 409,
  last_factor: 409,
  last_admin: 409,
  conflict: 409,
  payload_too_large: 413,
  uri_too_long: 414,
  unsupported_media_type: 415,
  misdirected_request: 421,
  too_many_requests: 429,
  headers_too_large: 431,
  internal_error: 500,
  caller_not_allowed: 500,
  deadline_missing: 500,
  not_implemented: 501,
  upstream_unavailable: 502,
  service_unavailable: 503,
  audit_unavailable: 503,
  busy: 503,
  upstream_timeout: 504,
  http_version_not_supported: 505,
};

export const HTTP_SWITCHING_PROTOCOLS = 101;
export const HTTP_EARLY_HINTS = 103;
export const HTTP_CREATED = 201;
export const HTTP_ACCEPTED = 202;
export const HTTP_NO_CONTENT = 204;
export const HTTP_BAD_REQUEST = 400;
export const HTTP_FOUND = 302;
export const HTTP_SEE_OTHER = 303;
export const HTTP_NOT_MODIFIED = 304;
/** nginx's status for a client that left, used in logs only. */
export const HTTP_CLIENT_GONE = 499;

/** Clients see these internal failures as `internal_error`. */
export const INTERNAL_ONLY: ReadonlySet<ErrorCode> = new Set(["caller_not_allowed", "deadline_missing"]);

const REALM = 'realm="gatehouse"';
const INVALID_TOKEN = `Bearer error="invalid_token", ${REALM}`;
/** RFC 9449 §7.1. */
const DPOP_REALM = `algs="${DPOP_ALGORITHMS.join(" ")}", ${REALM}`;
const INVALID_GRANT = `Bearer error="invalid_grant", ${REALM}`;

/** Unlike RFC 6750 §3.1, a missing token is an error. `invalid_grant`: RFC 6749 §5.2. */
const CHALLENGE: Partial<Record<ErrorCode, string>> = {
  token_missing: `Bearer error="invalid_request", ${REALM}`,
  token_invalid: INVALID_TOKEN,
  token_expired: `Bearer error="invalid_token", error_description="The token has expired", ${REALM}`,
  token_proof_missing: `DPoP error="invalid_token", ${DPOP_REALM}`,
  token_proof_invalid: `DPoP error="invalid_dpop_proof", ${DPOP_REALM}`,
  token_proof_needs_nonce: `DPoP error="use_dpop_nonce", ${DPOP_REALM}`,
  invalid_credentials: INVALID_GRANT,
  mfa_code_invalid: INVALID_GRANT,
  mfa_token_invalid: INVALID_GRANT,
  step_up_token_invalid: INVALID_GRANT,
  password_change_token_invalid: INVALID_GRANT,
  /** RFC 9470 §3. */
  step_up_required: `Bearer error="insufficient_user_authentication", max_age=300, ${REALM}`,
  passkey_invalid: INVALID_GRANT,
  /** RFC 6749 §5.2, RFC 7617 §2. */
  invalid_client: `Basic ${REALM}, charset="UTF-8"`,
  refresh_token_invalid: INVALID_GRANT,
  refresh_token_reused: INVALID_GRANT,
  device_proof_missing: INVALID_GRANT,
  /** RFC 6750 §3.1. Without `scope`: what a route asks for is not for those who may not call it. */
  forbidden: `Bearer error="insufficient_scope", ${REALM}`,
};

const OF_TOKENS: ReadonlySet<ErrorCode> = new Set([
  "token_invalid",
  "token_expired",
  "step_up_required",
  "forbidden",
]);

/** Names the scheme that the client used. Undefined for codes without a challenge. */
export function challengeOf(code: ErrorCode, authorization: string | undefined): string | undefined {
  // A call that needs no token, and has none, is not refused for what its token lacks.
  if (code === "forbidden" && authorization === undefined) return undefined;
  const challenge = CHALLENGE[code];
  const isDpop = OF_TOKENS.has(code) && schemeOf(authorization) === "DPoP";
  return isDpop ? challenge?.replace("Bearer", "DPoP").replace(REALM, DPOP_REALM) : challenge;
}
