import { BinaryReader, BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Metadata, type ServiceError, type StatusObject, status } from "@grpc/grpc-js";
import { z } from "zod";
import {
  DomainError,
  type ErrorCode,
  type FieldProblem,
  isErrorCode,
  type StepUpDemand,
} from "../values/errors.ts";

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

// This folder must not import generated code.

function encodeStatus(code: status, error: DomainError): Uint8Array {
  const writer = new BinaryWriter().tag(1, WireType.Varint).int32(code);
  writer.tag(2, WireType.LengthDelimited).string(error.message);
  const details = [any(ERROR_INFO, (info) => encodeInfo(info, error))];
  if (error.fields.length > 0) {
    details.push(any(BAD_REQUEST, (request) => error.fields.reduce(encodeViolation, request)));
  }
  const { retryAfterMs } = error;
  if (retryAfterMs !== undefined) {
    details.push(any(RETRY_INFO, (info) => message(info, 1, (delay) => encodeDuration(delay, retryAfterMs))));
  }
  for (const detail of details) writer.tag(3, WireType.LengthDelimited).bytes(detail);
  return writer.finish();
}

function encodeInfo(info: BinaryWriter, { code, limit, details }: DomainError): BinaryWriter {
  field(field(info, 1, code), 2, DOMAIN);
  const note = (key: string, text: string) =>
    message(info, 3, (entry) => field(field(entry, 1, key), 2, text));
  if (limit !== undefined) note(LIMIT_KEY, String(limit));
  if (code === "step_up_required" && details !== undefined) note(STEP_UP_KEY, JSON.stringify(details));
  return info;
}

function any(type: string, encode: (writer: BinaryWriter) => BinaryWriter): Uint8Array {
  const value = encode(new BinaryWriter()).finish();
  const writer = field(new BinaryWriter(), 1, TYPE_PREFIX + type);
  return writer.tag(2, WireType.LengthDelimited).bytes(value).finish();
}

function field(writer: BinaryWriter, number: number, text: string): BinaryWriter {
  return writer.tag(number, WireType.LengthDelimited).string(text);
}

function message(
  writer: BinaryWriter,
  number: number,
  encode: (w: BinaryWriter) => BinaryWriter,
): BinaryWriter {
  return writer.tag(number, WireType.LengthDelimited).bytes(encode(new BinaryWriter()).finish());
}

function encodeViolation(request: BinaryWriter, problem: FieldProblem): BinaryWriter {
  return message(request, 1, (violation) =>
    field(field(field(violation, 1, problem.field), 2, problem.message), 3, problem.code),
  );
}

function encodeDuration(writer: BinaryWriter, ms: number): BinaryWriter {
  writer.tag(1, WireType.Varint).int64(Math.floor(ms / 1_000));
  return writer.tag(2, WireType.Varint).int32((ms % 1_000) * 1_000_000);
}

type Fields = Map<number, (Uint8Array | number)[]>;

function decodeStatus(encoded: Buffer): DomainError | undefined {
  try {
    const root = readFields(encoded);
    const details = new Map(
      (root.get(3) ?? []).map((detail) => {
        const { 1: type, 2: value } = indexed(readFields(detail as Uint8Array));
        return [textOf(type).slice(TYPE_PREFIX.length), readFields(value as Uint8Array)] as const;
      }),
    );
    const info = details.get(ERROR_INFO);
    const reason = textOf(info?.get(1)?.[0]);
    if (textOf(info?.get(2)?.[0]) !== DOMAIN || !isErrorCode(reason)) return undefined;
    const retryAfterMs = decodeDuration(details.get(RETRY_INFO));
    const limit = decodeLimit(info);
    const stepUp = reason === "step_up_required" ? decodeStepUp(info) : undefined;
    return new DomainError(reason, textOf(root.get(2)?.[0]), {
      fields: (details.get(BAD_REQUEST)?.get(1) ?? []).map((violation) =>
        decodeViolation(violation as Uint8Array),
      ),
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      ...(limit === undefined ? {} : { limit }),
      ...(stepUp === undefined ? {} : { details: stepUp }),
    });
  } catch {
    // Not a google.rpc.Status.
    return undefined;
  }
}

function decodeViolation(bytes: Uint8Array): FieldProblem {
  const { 1: name, 2: text, 3: code } = indexed(readFields(bytes));
  return { field: textOf(name), message: textOf(text), code: textOf(code) };
}

function decodeLimit(info: Fields | undefined): number | undefined {
  const text = noteOf(info, LIMIT_KEY);
  return /^\d{1,9}$/.test(text) ? Number(text) : undefined;
}

function decodeStepUp(info: Fields | undefined): StepUpDemand | undefined {
  const text = noteOf(info, STEP_UP_KEY);
  return text === "" ? undefined : stepUpSchema.parse(JSON.parse(text));
}

/** Empty if absent. */
function noteOf(info: Fields | undefined, wanted: string): string {
  for (const entry of info?.get(3) ?? []) {
    const { 1: key, 2: value } = indexed(readFields(entry as Uint8Array));
    if (textOf(key) === wanted) return textOf(value);
  }
  return "";
}

function decodeDuration(info: Fields | undefined): number | undefined {
  const delay = info?.get(1)?.[0];
  if (!(delay instanceof Uint8Array)) return undefined;
  const { 1: seconds = 0, 2: nanos = 0 } = indexed(readFields(delay));
  return Number(seconds) * 1_000 + Math.floor(Number(nanos) / 1_000_000);
}

function readFields(bytes: Uint8Array): Fields {
  const reader = new BinaryReader(bytes);
  const fields: Fields = new Map();
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    if (wireType === WireType.LengthDelimited) append(fields, number, reader.bytes());
    else if (wireType === WireType.Varint) append(fields, number, Number(reader.int64()));
    else reader.skip(wireType, number);
  }
  return fields;
}

function append(fields: Fields, number: number, value: Uint8Array | number): void {
  fields.set(number, [...(fields.get(number) ?? []), value]);
}

function indexed(fields: Fields): Record<number, Uint8Array | number | undefined> {
  return Object.fromEntries([...fields].map(([number, values]) => [number, values[0]]));
}

function textOf(value: Uint8Array | number | undefined): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString("utf8") : "";
}
