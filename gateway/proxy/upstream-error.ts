import { DomainError } from "../../service-kit/errors.ts";

const TIMEOUT = new Set([
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "ETIMEDOUT",
]);
/** The call cannot have reached the upstream. */
const NOT_SENT = new Set([
  "UND_ERR_CONNECT_TIMEOUT",
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
]);
/** We used the client library wrongly. */
const DEFECT = new Set(["UND_ERR_INVALID_ARG", "UND_ERR_NOT_SUPPORTED", "UND_ERR_INVALID_RETURN_VALUE"]);

/** What a failed call to an upstream means. */
export interface UpstreamFailure {
  error: unknown;
  /** Whether the upstream may have done what was asked all the same. */
  isEffectUncertain: boolean;
  /** No connection came about: another upstream may be asked. */
  isUnsent: boolean;
}

/** From undici's error to ours: `upstream_timeout`, `upstream_unavailable`, or what ended the request's body. */
export function upstreamFailure(thrown: unknown): UpstreamFailure {
  // A body that grew too long: the upstream got a part of it, and the end of the connection.
  if (thrown instanceof DomainError) {
    return { error: thrown, isEffectUncertain: false, isUnsent: false };
  }
  const codes = codesOf(thrown);
  if (codes.some((code) => DEFECT.has(code))) {
    return { error: thrown, isEffectUncertain: true, isUnsent: false };
  }
  const code = codes.some((each) => TIMEOUT.has(each)) ? "upstream_timeout" : "upstream_unavailable";
  const isUnsent = codes.some((each) => NOT_SENT.has(each));
  const error = new DomainError(code, undefined, { cause: thrown });
  return { error, isEffectUncertain: !isUnsent, isUnsent };
}

/** How a connection ends that the other side has closed. */
const CLOSED = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

/** Whether a kept-alive connection, over which there were answers before, was closed with the call on it. */
export function isClosedBeforeAnswer(thrown: unknown): boolean {
  const {
    code = "",
    socket,
    bytesRead,
  } = (thrown ?? {}) as {
    code?: string;
    socket?: { bytesRead?: number };
    bytesRead?: number;
  };
  return CLOSED.has(code) && (socket?.bytesRead ?? bytesRead ?? 0) > 0;
}

/** The codes of an error and of those it stands for: a name with several addresses fails with several. */
function codesOf(thrown: unknown): string[] {
  const { code, errors = [] } = (thrown ?? {}) as { code?: string; errors?: unknown[] };
  return [...(code === undefined ? [] : [code]), ...errors.flatMap(codesOf)];
}
