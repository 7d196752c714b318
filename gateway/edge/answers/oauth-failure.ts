import type { DomainError, ErrorCode } from "#kit/values/errors.ts";
import { publicMessage } from "./envelope.ts";
import { HTTP_STATUS } from "./http-errors.ts";

/** Registered names (RFC 6749 §5.2, RFC 7009 §2.2.1, RFC 9449 §12.2). */
const NAMES: Partial<Record<ErrorCode, string>> = {
  invalid_client: "invalid_client",
  invalid_scope: "invalid_scope",
  unauthorized_client: "unauthorized_client",
  invalid_dpop_proof: "invalid_dpop_proof",
  use_dpop_nonce: "use_dpop_nonce",
  unsupported_grant_type: "unsupported_grant_type",
  unsupported_token_type: "unsupported_token_type",
  internal_error: "server_error",
  too_many_requests: "temporarily_unavailable",
};
const HTTP_UNAVAILABLE = 503;

export function oauthErrorOf(code: ErrorCode): string {
  const isAway = HTTP_STATUS[code] === HTTP_UNAVAILABLE;
  return NAMES[code] ?? (isAway ? "temporarily_unavailable" : "invalid_request");
}

/** RFC 6749 §5.2, without our envelope. */
export function oauthFailure(error: DomainError): { error: string; error_description: string } {
  const [problem] = error.code === "validation_failed" ? error.fields : [];
  const text = problem === undefined ? publicMessage(error) : `${problem.field}: ${problem.message}`;
  return {
    error: oauthErrorOf(error.code),
    error_description: text.replace(/[^\x20\x21\x23-\x5b\x5d-\x7e]/g, "'"),
  };
}
