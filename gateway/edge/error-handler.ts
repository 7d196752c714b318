import type { FastifyReply, FastifyRequest } from "fastify";
import type { Logger } from "#kit/telemetry/logger.ts";
import { DomainError, type ErrorCode } from "#kit/values/errors.ts";
import { stepUpChallenge, stepUpDemandOf } from "#token-client/assurance.ts";
import { schemeOf } from "#token-client/bearer-token.ts";
import type { KnownPaths } from "../routing/known-paths.ts";
import { preflightHeaders } from "./answers/cors.ts";
import { failure, publicMessage } from "./answers/envelope.ts";
import {
  challengeOf,
  HTTP_BAD_REQUEST,
  HTTP_CLIENT_GONE,
  HTTP_NO_CONTENT,
  HTTP_STATUS,
  INTERNAL_ONLY,
} from "./answers/http-errors.ts";
import { PAGE_HEADERS } from "./answers/link-pages.ts";
import { oauthFailure } from "./answers/oauth-failure.ts";
import { securityEventFailure } from "./answers/security-event-failure.ts";
import { setStandardHeaders } from "./answers/standard-headers.ts";
import { dropRefreshToken, isBrowserSession } from "./request/browser-session.ts";
import { acceptsHtml } from "./request/caller.ts";
import { ClientGone } from "./request/completion.ts";
import { isForm } from "./request/request-body.ts";
import { writableState } from "./request/request-state.ts";

const DEFAULT_RETRY_MS = 1_000;
const RETRY_LATER: ReadonlySet<number> = new Set([429, 503]);

/** The refresh token that was sent is good for nothing more. */
const ENDED: ReadonlySet<ErrorCode> = new Set(["refresh_token_invalid", "refresh_token_reused"]);

const RATE_LIMIT_HEADERS = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];

const FRAMEWORK_CODES: Readonly<Record<string, ErrorCode>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: "payload_too_large",
  FST_ERR_CTP_INVALID_MEDIA_TYPE: "unsupported_media_type",
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: "bad_request",
  FST_ERR_BAD_URL: "bad_request",
  FST_ERR_MAX_PARAM_LENGTH: "uri_too_long",
};

export function createErrorHandler(logger: Logger) {
  return (thrown: unknown, request: FastifyRequest, reply: FastifyReply): void => {
    if (thrown instanceof ClientGone) {
      reply.code(HTTP_CLIENT_GONE).send();
      return;
    }
    const error = toDomainError(thrown, request);
    logDefect(logger, error, request.id);
    sendFailure(error, request, reply);
  };
}

function toDomainError(thrown: unknown, request: FastifyRequest): DomainError {
  if (thrown instanceof DomainError) {
    return INTERNAL_ONLY.has(thrown.code) ? internalError(thrown) : thrown;
  }
  const { code, statusCode } = thrown as { code?: string; statusCode?: number };
  const known = code === undefined ? undefined : FRAMEWORK_CODES[code];
  if (known !== undefined) return new DomainError(known, undefined, { cause: thrown });
  // Fastify marks a failure of the request's own stream with 400.
  if (statusCode === 400 && request.raw.destroyed)
    return new DomainError("bad_request", undefined, { cause: thrown });
  return internalError(thrown);
}

function wantsPage(request: FastifyRequest): boolean {
  if (request.method === "POST") return isForm(request);
  return acceptsHtml(request);
}

function internalError(cause: unknown): DomainError {
  return new DomainError("internal_error", undefined, { cause });
}

/** `busy` is a refusal like those with 429: a flood of calls must not be one of stacks. */
function logDefect(logger: Logger, error: DomainError, requestId: string): void {
  if (error.code === "busy") return;
  if (error.code === "internal_error") logger.error({ err: error, requestId }, "request failed unexpectedly");
  else if (HTTP_STATUS[error.code] >= 500) logger.warn({ err: error, requestId }, "request failed");
}

function setRetryHeaders({ retryAfterMs, limit }: DomainError, reply: FastifyReply): void {
  const seconds = Math.max(1, Math.ceil((retryAfterMs ?? DEFAULT_RETRY_MS) / 1_000));
  reply.header("retry-after", seconds);
  if (limit === undefined) return;
  reply.headers({ "ratelimit-limit": limit, "ratelimit-remaining": 0, "ratelimit-reset": seconds });
}

function sendFailure(error: DomainError, request: FastifyRequest, reply: FastifyReply): void {
  const { code } = error;
  const status = HTTP_STATUS[code];
  const { contentType, body } = failure(error, request.id, request.headers.accept);
  const demand = stepUpDemandOf(error);
  const { authorization } = request.headers;
  const challenge =
    demand === undefined
      ? challengeOf(code, authorization)
      : stepUpChallenge(demand, schemeOf(authorization));
  setStandardHeaders(request, reply);
  for (const name of RATE_LIMIT_HEADERS) reply.removeHeader(name);
  if (challenge !== undefined) reply.header("www-authenticate", challenge);
  if (ENDED.has(code) && isBrowserSession(request)) dropRefreshToken(reply);
  if (RETRY_LATER.has(status)) setRetryHeaders(error, reply);
  if (request.state !== undefined) writableState(request).errorCode = code;
  const page = wantsPage(request) ? request.routeOptions?.config?.failurePage : undefined;
  if (page !== undefined) {
    const html = page(error, publicMessage(error), request);
    reply.code(status).header("cache-control", "no-store").headers(PAGE_HEADERS).send(html);
    return;
  }
  const form = request.routeOptions?.config?.docs?.failureForm;
  if (form === "oauth" || (form === "securityEvent" && status === HTTP_BAD_REQUEST)) {
    const own = form === "oauth" ? oauthFailure(error) : securityEventFailure(error);
    reply.code(status).header("cache-control", "no-store").send(own);
    return;
  }
  // A buffer keeps Fastify from changing the media type.
  reply
    .code(status)
    .header("cache-control", "no-store")
    .header("content-type", contentType)
    .send(Buffer.from(JSON.stringify(body)));
}

/** @param missing answers an unknown path of browsers. */
export function createNotFoundHandler(
  paths: KnownPaths,
  missing: (path: string, request: FastifyRequest, reply: FastifyReply) => FastifyReply | undefined,
) {
  return (request: FastifyRequest, reply: FastifyReply): FastifyReply => {
    const [path = ""] = (request.raw.url ?? "").split("?", 1);
    const methods = request.state.target?.route.allow ?? paths.methodsOf(path);
    if (methods.length === 0) {
      const answer = missing(path, request, reply);
      if (answer === undefined) throw new DomainError("not_found");
      return answer;
    }
    // Path and method exist, so the router refused an overlong parameter.
    if (request.state.target === null && methods.includes(request.method))
      throw new DomainError("uri_too_long");
    reply.header("allow", [...methods, "OPTIONS"].join(", "));
    if (request.method !== "OPTIONS") throw new DomainError("method_not_allowed");
    return reply
      .headers(preflightHeaders(request, methods, paths.cookiesOf(path) === "session"))
      .header("cache-control", "no-store")
      .code(HTTP_NO_CONTENT)
      .send();
  };
}
