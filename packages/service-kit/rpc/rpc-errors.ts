import type { BinaryWriter } from "@bufbuild/protobuf/wire";
import { Metadata, type ServiceError, type StatusObject, status } from "@grpc/grpc-js";
import { z } from "zod";
import type { Any } from "#proto/google/protobuf/any.ts";
import { BadRequest, ErrorInfo, RetryInfo } from "#proto/google/rpc/error_details.ts";
import { Status } from "#proto/google/rpc/status.ts";
import { DomainError, type ErrorCode, isErrorCode } from "../values/errors.ts";

const STATUS: Record<ErrorCode, status> = {
  validation_failed: status.INVALID_ARGUMENT,
  bad_request: status.INVALID_ARGUMENT,
  password_too_short: status.INVALID_ARGUMENT,
  password_too_common: status.INVALID_ARGUMENT,
  password_contains_email: status.INVALID_ARGUMENT,
  password_unchanged: status.INVALID_ARGUMENT,
  verification_token_invalid: status.INVALID_ARGUMENT,
  reset_token_invalid: status.INVALID_ARGUMENT,
  oauth_state_invalid: status.INVALID_ARGUMENT,
  oauth_code_invalid: status.INVALID_ARGUMENT,
  token_missing: status.UNAUTHENTICATED,
  token_invalid: status.UNAUTHENTICATED,
  token_expired: status.UNAUTHENTICATED,
  token_proof_missing: status.UNAUTHENTICATED,
  token_proof_invalid: status.UNAUTHENTICATED,
  token_proof_needs_nonce: status.UNAUTHENTICATED,
  step_up_required: status.UNAUTHENTICATED,
  invalid_credentials: status.UNAUTHENTICATED,
  mfa_code_invalid: status.UNAUTHENTICATED,
  mfa_token_invalid: status.UNAUTHENTICATED,
  step_up_token_invalid: status.UNAUTHENTICATED,
  password_change_token_invalid: status.UNAUTHENTICATED,
  passkey_invalid: status.UNAUTHENTICATED,
  invalid_client: status.UNAUTHENTICATED,
  invalid_scope: status.INVALID_ARGUMENT,
  unauthorized_client: status.INVALID_ARGUMENT,
  invalid_dpop_proof: status.INVALID_ARGUMENT,
  use_dpop_nonce: status.INVALID_ARGUMENT,
  unsupported_grant_type: status.INVALID_ARGUMENT,
  unsupported_token_type: status.INVALID_ARGUMENT,
  refresh_token_invalid: status.UNAUTHENTICATED,
  refresh_token_reused: status.UNAUTHENTICATED,
  device_proof_missing: status.UNAUTHENTICATED,
  mfa_enrollment_required: status.PERMISSION_DENIED,
  forbidden: status.PERMISSION_DENIED,
  origin_not_allowed: status.PERMISSION_DENIED,
  role_not_defined: status.PERMISSION_DENIED,
  user_required: status.PERMISSION_DENIED,
  caller_not_allowed: status.PERMISSION_DENIED,
  email_not_verified: status.PERMISSION_DENIED,
  oauth_failed: status.INVALID_ARGUMENT,
  oauth_denied: status.PERMISSION_DENIED,
  reauthentication_required: status.PERMISSION_DENIED,
  approval_required: status.PERMISSION_DENIED,
  approval_mismatch: status.PERMISSION_DENIED,
  approval_expired: status.PERMISSION_DENIED,
  approval_used: status.PERMISSION_DENIED,
  provider_not_found: status.NOT_FOUND,
  not_found: status.NOT_FOUND,
  method_not_allowed: status.UNIMPLEMENTED,
  email_already_registered: status.ALREADY_EXISTS,
  mfa_already_enabled: status.FAILED_PRECONDITION,
  mfa_required: status.FAILED_PRECONDITION,
  link_required: status.FAILED_PRECONDITION,
  already_linked: status.FAILED_PRECONDITION,
  last_credential: status.FAILED_PRECONDITION,
  last_factor: status.FAILED_PRECONDITION,
  last_admin: status.FAILED_PRECONDITION,
  conflict: status.FAILED_PRECONDITION,
  request_timeout: status.UNAVAILABLE,
  payload_too_large: status.INVALID_ARGUMENT,
  uri_too_long: status.INVALID_ARGUMENT,
  unsupported_media_type: status.INVALID_ARGUMENT,
  misdirected_request: status.INVALID_ARGUMENT,
  headers_too_large: status.INVALID_ARGUMENT,
  deadline_missing: status.INVALID_ARGUMENT,
  too_many_requests: status.RESOURCE_EXHAUSTED,
  busy: status.UNAVAILABLE,
  not_implemented: status.UNIMPLEMENTED,
  http_version_not_supported: status.UNIMPLEMENTED,
  internal_error: status.INTERNAL,
  upstream_unavailable: status.UNAVAILABLE,
  upstream_timeout: status.UNAVAILABLE,
  service_unavailable: status.UNAVAILABLE,
  audit_unavailable: status.UNAVAILABLE,
};

const DOMAIN = "gatehouse";
/** Keys of `ErrorInfo.metadata`. */
const LIMIT_KEY = "quota_limit_value";
const STEP_UP_KEY = "step_up_demand";
const stepUpSchema = z.object({
  acr: z.literal([1, 2, 3]),
  maxAgeSeconds: z.int().optional(),
  methods: z.array(z.string()).max(8),
});
const DETAILS_KEY = "grpc-status-details-bin";
const TYPE_PREFIX = "type.googleapis.com/";
const ERROR_INFO = "google.rpc.ErrorInfo";
const BAD_REQUEST = "google.rpc.BadRequest";
const RETRY_INFO = "google.rpc.RetryInfo";

export type PartialStatus = Pick<StatusObject, "code" | "details"> & Partial<Pick<StatusObject, "metadata">>;

/** Only a DomainError's code and message leave the process. @see https://google.aip.dev/193 */
export function toRpcError(error: unknown): PartialStatus {
  if (!(error instanceof DomainError)) return { code: status.INTERNAL, details: "internal error" };
  const code = STATUS[error.code];
  const metadata = new Metadata();
  metadata.set(DETAILS_KEY, Buffer.from(encodeStatus(code, error)));
  return { code, details: error.message, metadata };
}

/** Transport failures become `service_unavailable`, defects of the peer `internal_error`. */
export function fromRpcError(error: unknown): DomainError {
  if (error instanceof DomainError) return error;
  const failure = error as Partial<ServiceError>;
  const encoded = failure.metadata?.get(DETAILS_KEY)[0];
  if (Buffer.isBuffer(encoded)) {
    const decoded = decodeStatus(encoded);
    if (decoded !== undefined) return decoded;
  }
  const isDefect = (failure.code === status.INTERNAL && !isBrokenStream(failure)) || isUnknownMethod(error);
  return new DomainError(isDefect ? "internal_error" : "service_unavailable", undefined, { cause: error });
}

/** Whether the server has no such method. */
export function isUnknownMethod(error: unknown): boolean {
  return (error as Partial<ServiceError>).code === status.UNIMPLEMENTED;
}

/** A dropped call, to which grpc-js gives the status of a defect. */
function isBrokenStream({ details }: Partial<ServiceError>): boolean {
  return details?.startsWith("Received RST_STREAM") === true;
}

function encodeStatus(code: status, error: DomainError): Uint8Array {
  const { fields, retryAfterMs } = error;
  const details = [
    any(ERROR_INFO, ErrorInfo, { reason: error.code, domain: DOMAIN, metadata: notesOf(error) }),
  ];
  if (fields.length > 0) {
    const fieldViolations = fields.map(({ field, message: description, code: reason }) => ({
      field,
      description,
      reason,
    }));
    details.push(any(BAD_REQUEST, BadRequest, { fieldViolations }));
  }
  if (retryAfterMs !== undefined) {
    const retryDelay = {
      seconds: Math.floor(retryAfterMs / 1_000),
      nanos: Math.floor((retryAfterMs % 1_000) * 1_000_000),
    };
    details.push(any(RETRY_INFO, RetryInfo, { retryDelay }));
  }
  return Status.encode({ code, message: error.message, details }).finish();
}

function notesOf({ code, limit, details }: DomainError): Record<string, string> {
  return {
    ...(limit !== undefined && { [LIMIT_KEY]: String(limit) }),
    ...(code === "step_up_required" && details !== undefined && { [STEP_UP_KEY]: JSON.stringify(details) }),
  };
}

interface MessageType<T> {
  encode(message: T): BinaryWriter;
  decode(bytes: Uint8Array): T;
}

const any = <T>(type: string, { encode }: MessageType<T>, message: T): Any => ({
  typeUrl: TYPE_PREFIX + type,
  value: Buffer.from(encode(message).finish()),
});

/** Undefined for what is no google.rpc.Status of ours. */
function decodeStatus(encoded: Buffer): DomainError | undefined {
  try {
    const { message, details } = Status.decode(encoded);
    const find = <T>(type: string, { decode }: MessageType<T>): T | undefined => {
      const found = details.findLast(({ typeUrl }) => typeUrl === TYPE_PREFIX + type);
      return found && decode(found.value);
    };
    const { reason = "", domain, metadata = {} } = find(ERROR_INFO, ErrorInfo) ?? {};
    if (domain !== DOMAIN || !isErrorCode(reason)) return undefined;
    const delay = find(RETRY_INFO, RetryInfo)?.retryDelay;
    const limit = metadata[LIMIT_KEY] ?? "";
    const stepUp = reason === "step_up_required" ? metadata[STEP_UP_KEY] : undefined;
    const violations = find(BAD_REQUEST, BadRequest)?.fieldViolations ?? [];
    return new DomainError(reason, message, {
      fields: violations.map(({ field, description, reason: code }) => ({
        field,
        message: description,
        code,
      })),
      ...(delay !== undefined && {
        retryAfterMs: delay.seconds * 1_000 + Math.floor(delay.nanos / 1_000_000),
      }),
      ...(/^\d{1,9}$/.test(limit) && { limit: Number(limit) }),
      ...(stepUp !== undefined && { details: stepUpSchema.parse(JSON.parse(stepUp)) }),
    });
  } catch {
    return undefined;
  }
}
