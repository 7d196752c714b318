import { type DomainError, ERROR_CATALOGUE, type FieldProblem } from "#kit/values/errors.ts";
import { HTTP_STATUS } from "./http-errors.ts";

export interface Success<T> {
  success: true;
  data: T;
  message: string;
}

export function success<T>(data: T, message: string): Success<T> {
  return { success: true, data, message };
}

export interface Failure {
  contentType: string;
  body: object;
}

/** RFC 9457 §3. */
export const PROBLEM_TYPE = "application/problem+json";

/** Problem details (RFC 9457) only if `Accept` requests them. */
export function failure(error: DomainError, requestId: string, accept: string | undefined): Failure {
  const { code } = error;
  const message = publicMessage(error);
  const details = detailsOf(error);
  if (!acceptsProblem(accept)) {
    const body = { success: false, message, error: { code, requestId, ...(details && { details }) } };
    return { contentType: "application/json; charset=utf-8", body };
  }
  const body = {
    type: `urn:gatehouse:error:${code}`,
    title: ERROR_CATALOGUE[code],
    status: HTTP_STATUS[code],
    detail: message,
    instance: `urn:uuid:${requestId}`,
    code,
    requestId,
    ...(Array.isArray(details) ? { errors: details } : details && { details }),
  };
  return { contentType: PROBLEM_TYPE, body };
}

function detailsOf({ code, fields, retryAfterMs, details }: DomainError) {
  if (code === "validation_failed") return fields.map(toDetail);
  if (code === "invalid_credentials" && retryAfterMs !== undefined)
    return { retryAfter: Math.ceil(retryAfterMs / 1_000) };
  return details;
}

/** The message of an internal error may come from another service. */
export function publicMessage({ code, message }: DomainError): string {
  return HTTP_STATUS[code] >= 500 ? ERROR_CATALOGUE[code] : message;
}

/** The object may carry more fields. */
function toDetail({ field, code, message }: FieldProblem): FieldProblem {
  return { field, code, message };
}

/** RFC 9110 §12.5.1. */
function acceptsProblem(accept: string | undefined): boolean {
  if (accept === undefined || !accept.toLowerCase().includes(PROBLEM_TYPE)) return false;
  const quality = new Map(
    accept.split(",").map((range) => {
      const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
      const weight = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2);
      return [type, weight === undefined ? 1 : Number(weight)] as const;
    }),
  );
  const wanted = quality.get(PROBLEM_TYPE) ?? 0;
  const plain = ["application/json", "application/*", "*/*"].find((range) => quality.has(range));
  return wanted > 0 && wanted >= (quality.get(plain ?? "") ?? 0);
}
