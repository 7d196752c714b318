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
    "No login at an identity provider waits in this browser: it has ended, or began in another browser.",
  oauth_code_invalid:
    "The one-time code is wrong, already used, older than 60 seconds, or made for another code verifier.",
  token_missing: "The call needs an access token.",
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
  mfa_code_invalid: "The code is wrong, too old or already used.",
  mfa_token_invalid: "The login is unknown, has ended or was tried too often; log in again.",
  step_up_token_invalid:
    "The step-up is unknown, belongs to another session, has ended or was tried too often; begin it again.",
  password_change_token_invalid: "The login is unknown, has ended or was tried too often; log in again.",
  passkey_invalid: "The passkey's answer is wrong, too old, already used, or made for another call.",
  invalid_client: "The client is unknown, or has not proven itself.",
  invalid_scope: "The scope names a permission that the client does not have.",
  unauthorized_client: "The token was not issued to this client.",
  invalid_dpop_proof: "The `DPoP` proof in a request for tokens is not valid, or was used before.",
  use_dpop_nonce:
    "The `DPoP` proof needs the nonce of the header `DPoP-Nonce`: make a new proof with it, and repeat the request.",
  unsupported_grant_type: "The grant type is not `client_credentials`.",
  unsupported_token_type: "An API key cannot be revoked here: revoke the credential of the client instead.",
  refresh_token_invalid:
    "The refresh token is unknown, malformed or expired, its session has ended, or the call does not prove the session's key.",
  device_proof_missing:
    "The session is bound to its browser's device, which has not proven itself within two minutes.",
  refresh_token_reused: "A newer refresh token had already replaced this one; the session has been ended.",
  forbidden: "The caller's role, or the client's scope, does not allow this call.",
  origin_not_allowed:
    "The page's origin is not allowed: browser sessions accept the gateway's own origin and listed ones of its site, WebSockets those that the route lists.",
  role_not_defined: "The account's role is no longer defined; an administrator has to assign another one.",
  user_required: "The call needs a step-up or an approval, which only a user can give.",
  email_not_verified:
    "The e-mail address must be confirmed first, with the link in the mail and the account's password or session.",
  oauth_failed: "The identity provider did not prove who the user is, or the account may not log in.",
  oauth_denied: "The user, or the identity provider, has declined the login.",
  reauthentication_required:
    "The call needs the account's password or, if it has none, a new login at its identity provider (`prompt=login`).",
  mfa_enrollment_required:
    "The account has no second factor that reaches the level that the call demands: set one up first.",
  approval_required: "The call needs the user's approval of this transaction; `details` holds it.",
  approval_mismatch:
    "The approval is unknown, or was given for another transaction, by another user or in another session.",
  approval_expired:
    "The approval has expired, was refused or was tried too often; repeat the call without it to get a new one.",
  approval_used: "The approval was already used; repeat the call without it to get a new one.",
  provider_not_found: "There is no identity provider of this name.",
  not_found: "There is nothing here that the caller may see.",
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
    "Without it nobody could log in to the account: set a password or link another provider first.",
  last_factor:
    "Without this passkey nobody could log in to the account: set a password or add another one first.",
  last_admin: "The only active administrator who can log in can be neither demoted, disabled nor deleted.",
  conflict: "The call conflicts with the present state.",
  request_timeout: "The request did not arrive completely in time.",
  payload_too_large: "The request body is larger than the route allows.",
  uri_too_long: "The URL is longer than the gateway reads.",
  unsupported_media_type: "The route does not accept this type of request body.",
  misdirected_request: "The request names a host that this gateway does not serve.",
  headers_too_large: "The request has more or larger headers than the gateway reads.",
  too_many_requests: "The caller is over a rate limit; see `Retry-After`.",
  not_implemented: "The gateway does not know this method or transfer coding.",
  http_version_not_supported: "Only HTTP 1.0 and 1.1 are supported.",
  internal_error: "A defect in Gatehouse; look for the request id in the logs.",
  upstream_unavailable: "The service behind this route could not be reached.",
  service_unavailable: "A part of Gatehouse is temporarily unavailable; try again.",
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

/** Of one member of a request. @param code as in `FieldProblem`. */
export function invalidField(field: string, code: string, message: string): DomainError {
  return new DomainError("validation_failed", undefined, { fields: [{ field, code, message }] });
}
