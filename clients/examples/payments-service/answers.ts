import { DomainError, type ErrorCode } from "#kit/values/errors.ts";

/** As in docs/errors.md. */
const STATUS: Partial<Record<ErrorCode, number>> = {
  uri_too_long: 414,
  validation_failed: 400,
  bad_request: 400,
  token_missing: 401,
  token_invalid: 401,
  token_expired: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  service_unavailable: 503,
};
const DEFECT_STATUS = 500;

export function success<T>(data: T, message: string) {
  return { success: true, data, message };
}

/** Uses Gatehouse's envelope. Unexpected errors become `internal_error` without details. */
export function failure(thrown: unknown, requestId: string) {
  const known = thrown instanceof DomainError ? thrown : new DomainError(frameworkCode(thrown));
  const status = STATUS[known.code];
  const error = status === undefined ? new DomainError("internal_error") : known;
  const { code, message, fields } = error;
  const details = code === "validation_failed" ? { details: fields } : {};
  return {
    status: status ?? DEFECT_STATUS,
    body: { success: false, message, error: { code, requestId, ...details } },
  };
}

const FRAMEWORK_CODES: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: "payload_too_large",
  FST_ERR_CTP_INVALID_MEDIA_TYPE: "unsupported_media_type",
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: "bad_request",
  FST_ERR_BAD_URL: "bad_request",
  FST_ERR_MAX_PARAM_LENGTH: "uri_too_long",
};

function frameworkCode(thrown: unknown): ErrorCode {
  return FRAMEWORK_CODES[(thrown as { code?: string }).code ?? ""] ?? "internal_error";
}
