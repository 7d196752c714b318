/** Codes are part of the API: add, never rename. */
export const ERROR_CATALOGUE = {
  validation_failed: "The request does not fit its schema; `details` lists every failing field.",
  bad_request: "The request is not well-formed HTTP, JSON or URL, or is ambiguous.",
  password_too_short: "The password has fewer characters than the policy asks for.",
  password_too_common: "The password is among the most common ones.",
  password_contains_email: "The password is or contains the name part of the e-mail address.",
  password_unchanged: "The password has to be changed, and the new one is the present one.",
  verification_token_invalid: "The link is invalid: wrong, used, expired, or replaced by a newer one.",
  reset_token_invalid:
    "The link to a new password is invalid: wrong, used, expired, or replaced by a newer one.",
  oauth_state_invalid:
    "No login of this browser is waiting for this answer of an identity provider: it is over, or began elsewhere.",
  oauth_code_invalid:
    "The one-time code is wrong, was used, is older than 60 seconds or belongs to another verifier.",
  token_missing: "The call needs an access token and has none.",
  token_invalid: "The access token was not issued here, is malformed or has been revoked.",
  token_expired: "The access token has expired; refresh it.",
  token_proof_missing:
    "The access token is bound to a key: send it with the scheme `DPoP`, and a proof of the key in the header `DPoP`.",
  token_proof_invalid: "The `DPoP` proof does not belong to this access token and call, or was used before.",
  token_proof_needs_nonce:
    "The `DPoP` proof needs the nonce of the header `DPoP-Nonce`: make a new proof with it, and repeat the call.",
  step_up_required:
    "The call needs a stronger or more recent proof of who the user is; `details` says which. See `POST /auth/step-up`.",
  invalid_credentials: "E-mail and password do not belong to an account that may log in.",
  mfa_code_invalid: "The code is not the second factor's: wrong, too old or used before.",
  mfa_token_invalid:
    "The login that this code was for is unknown, over, or has been tried too often; log in again.",
  step_up_token_invalid:
    "The step-up is unknown, of another session, over, or has been tried too often; begin it again.",
  password_change_token_invalid:
    "The login that this new password was for is unknown, over, or has been tried too often; log in again.",
  passkey_invalid: "The passkey's answer is not valid: wrong, too old, used before, or for another call.",
  invalid_client: "The client is unknown, or has not proven itself.",
  invalid_scope: "The scope names a permission that the client does not have.",
  unauthorized_client: "The token is not one that was given to this client.",
  invalid_dpop_proof: "The `DPoP` proof in a request for tokens is not valid, or was used before.",
  use_dpop_nonce:
    "The `DPoP` proof needs the nonce of the header `DPoP-Nonce`: make a new proof with it, and repeat the request.",
  unsupported_grant_type: "The grant type is not `client_credentials`.",
  unsupported_token_type: "Tokens of this kind cannot be revoked here.",
  refresh_token_invalid:
    "The refresh token is unknown, malformed or expired, its session has ended, or the call does not prove the session's key.",
  refresh_token_reused: "The refresh token was used before its successor was; the session has been ended.",
  forbidden: "The caller's role, or what the client was granted, does not allow this call.",
  origin_not_allowed:
    "The page's origin is not allowed: browser sessions are for the gateway's own origin and listed ones on its site, WebSockets for those that the route lists.",
  role_not_defined:
    "The role of the account is not in use any more; an administrator has to give it another one.",
  user_required: "The call needs a stronger proof or an approval, which a user can give and a client cannot.",
  email_not_verified:
    "The e-mail address has to be confirmed first: by the link in the mail, with the account's password or session.",
  oauth_failed: "The identity provider did not prove who the user is, or the account may not log in.",
  oauth_denied: "The user, or the identity provider, has declined the login.",
  reauthentication_required:
    "The call needs the account's password, or of an account without one a login in the last 10 minutes.",
  mfa_enrollment_required:
    "The account has no second factor that reaches the level that the call demands: set one up first.",
  approval_required: "The call needs the user's approval of this transaction; `details` holds it.",
  approval_mismatch:
    "The approval is unknown, or was given for another transaction, by another user or in another session.",
  approval_expired:
    "The approval is too old, was refused, or was tried too often; ask for a new one by the same call without it.",
  approval_used: "The approval was used already; ask for a new one by the same call without it.",
  provider_not_found: "There is no identity provider of this name.",
  not_found: "There is nothing here, or nothing that the caller may see.",
  method_not_allowed: "The path exists, but not with this method; see `Allow`.",
  email_already_registered:
    "An account with this e-mail address exists, or was deleted within the last hour before it was confirmed.",
  mfa_already_enabled: "The account has a second factor already.",
  mfa_required: "The role of the account requires a second factor, and this is its last one.",
  link_required:
    "An account with this address exists: log in to it, prove its address, and link the identity provider there.",
  already_linked:
    "The account at the identity provider is linked to another user, or the user has one there already.",
  last_credential:
    "Without it, the account would have no login left: set a password or link another provider first.",
  last_factor:
    "Without this passkey, the account would have no login left: set a password or add another one first.",
  last_admin: "The only active administrator who can log in can be neither demoted, disabled nor deleted.",
  conflict: "The call contradicts the present state.",
  request_timeout: "The request did not arrive completely in time.",
  payload_too_large: "The request body is larger than the route allows.",
  uri_too_long: "The URL is longer than the gateway reads.",
  unsupported_media_type: "The request body is not of a type that the route reads.",
  misdirected_request: "The request names a host that this gateway does not serve.",
  headers_too_large: "The request's headers are larger or more than the gateway reads.",
  too_many_requests: "The caller is over a rate limit; see `Retry-After`.",
  not_implemented: "The request has a method or a transfer coding that the gateway does not know.",
  http_version_not_supported: "The request is in another version of HTTP than 1.0 and 1.1.",
  internal_error: "A defect in Gatehouse. The request id finds it in the logs.",
  upstream_unavailable: "The service behind this route could not be reached.",
  service_unavailable: "A part of Gatehouse is unavailable for the moment; try again.",
  audit_unavailable: "The call was not carried out, because it could not be recorded; try again.",
  busy: "Too many password checks are waiting; try again.",
  upstream_timeout: "The service behind this route did not answer in time.",
  caller_not_allowed: "This client certificate may not call this method.",
  deadline_missing: "A call between services needs a deadline.",
} as const;

export type ErrorCode = keyof typeof ERROR_CATALOGUE;

export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERROR_CATALOGUE, text);
}

export interface FieldProblem {
  /** Dotted path: `email`, `address.city`. */
  field: string;
  /** Stable: `required`, `invalid_format`, `unknown_key`, …. */
  code: string;
  message: string;
}

export interface DomainErrorOptions {
  cause?: unknown;
  retryAfterMs?: number;
  /** The caller's budget, for `too_many_requests` only. */
  limit?: number;
  /** For `validation_failed` only. */
  fields?: readonly FieldProblem[];
  /** JSON for the client. Between services, only that of `step_up_required` is sent. */
  details?: Readonly<Record<string, unknown>> | StepUpDemand;
}

/** The details of `step_up_required`: the level of assurance that a call demands, and its greatest age. */
export interface StepUpDemand {
  acr: 1 | 2 | 3;
  maxAgeSeconds?: number | undefined;
  /** Those that may reach it. */
  methods: readonly string[];
}

/** An expected failure. Any other error is a bug. */
export class DomainError extends Error {
  override readonly name = "DomainError";
  readonly code: ErrorCode;
  readonly retryAfterMs: number | undefined;
  readonly limit: number | undefined;
  readonly fields: readonly FieldProblem[];
  readonly details: Readonly<Record<string, unknown>> | StepUpDemand | undefined;

  constructor(code: ErrorCode, message: string = ERROR_CATALOGUE[code], options: DomainErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.retryAfterMs = options.retryAfterMs;
    this.limit = options.limit;
    this.fields = options.fields ?? [];
    this.details = options.details;
  }
}
