import type { Dispatcher } from "undici";
import { DomainError } from "#kit/values/errors.ts";
import { HTTP_NO_CONTENT, HTTP_NOT_MODIFIED } from "../edge/answers/http-errors.ts";

const TIMEOUT = new Set([
  "UND_ERR_HEADERS_TIMEOUT",
  "UND_ERR_BODY_TIMEOUT",
  "UND_ERR_CONNECT_TIMEOUT",
  "ETIMEDOUT",
]);
const DEFECT = new Set(["UND_ERR_INVALID_ARG", "UND_ERR_NOT_SUPPORTED", "UND_ERR_INVALID_RETURN_VALUE"]);

export interface UpstreamFailure {
  error: unknown;
  /** Whether the upstream may have executed the call. */
  isEffectUncertain: boolean;
  /** There was no connection: another upstream may be tried. */
  isUnsent: boolean;
}

/** Maps undici's errors to `upstream_timeout` or `upstream_unavailable`. @param wasBegun on a connection. */
export function upstreamFailure(thrown: unknown, wasBegun: boolean): UpstreamFailure {
  // The gateway itself has thrown it. Its caller knows what was sent.
  if (thrown instanceof DomainError) {
    return { error: thrown, isEffectUncertain: false, isUnsent: false };
  }
  const codes = codesOf(thrown);
  if (codes.some((code) => DEFECT.has(code))) {
    return { error: thrown, isEffectUncertain: true, isUnsent: false };
  }
  const code = codes.some((each) => TIMEOUT.has(each)) ? "upstream_timeout" : "upstream_unavailable";
  const error = new DomainError(code, undefined, { cause: thrown });
  return { error, isEffectUncertain: wasBegun, isUnsent: !wasBegun };
}

const CLOSED = new Set(["UND_ERR_SOCKET", "ECONNRESET", "EPIPE"]);

/** Whether a connection with earlier responses was closed. */
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

const WITHOUT_BODY: ReadonlySet<number> = new Set([HTTP_NO_CONTENT, HTTP_NOT_MODIFIED]);

/** Such an answer ends with its headers, whatever length they name (RFC 9112 §6.3). undici misses its body. */
export function isWholeAnswer(thrown: unknown, status: number): boolean {
  return WITHOUT_BODY.has(status) && codesOf(thrown).includes("UND_ERR_RES_CONTENT_LENGTH_MISMATCH");
}

/** An AggregateError has one error for each address. */
function codesOf(thrown: unknown): string[] {
  const { code, errors = [] } = (thrown ?? {}) as { code?: string; errors?: unknown[] };
  return [...(code === undefined ? [] : [code]), ...errors.flatMap(codesOf)];
}

interface UpstreamHandler extends Dispatcher.DispatchHandler {
  /** Answers with the error, or breaks off a started answer. */
  fail(error: DomainError): void;
}

const CALLBACKS = [
  "onRequestStart",
  "onRequestUpgrade",
  "onResponseStart",
  "onResponseData",
  "onResponseEnd",
  "onResponseError",
] as const;

/** undici would take what a callback throws for a failure of the upstream. @param prototype once for all its calls. */
export function guardCallbacks(prototype: UpstreamHandler): void {
  for (const name of CALLBACKS) {
    const callback = prototype[name] as ((...args: unknown[]) => void) | undefined;
    if (callback === undefined) continue;
    prototype[name] = function guarded(this: UpstreamHandler, ...args: unknown[]): void {
      try {
        callback.apply(this, args);
      } catch (cause) {
        this.fail(new DomainError("upstream_unavailable", undefined, { cause }));
      }
    };
  }
}
