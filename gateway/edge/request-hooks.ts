import type { IncomingMessage } from "node:http";
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import type { AuditRecorder } from "../../audit-client/audit-entry.ts";
import { CALL_BUDGET_MS, newCallContext } from "../../service-kit/call-context.ts";
import { DomainError } from "../../service-kit/errors.ts";
import type { Logger } from "../../service-kit/logger.ts";
import type { Metrics } from "../../service-kit/metrics.ts";
import { startSpan } from "../../service-kit/tracing.ts";
import type { TokenVerifier } from "../../token-client/principal.ts";
import type { ProxyTable } from "../routing/proxy-table.ts";
import { createEnqueueOutcome, createRecordIntent, isAudited, type RecordOutcome } from "./audit.ts";
import { createAuthenticate, createSecondLook } from "./authenticate.ts";
import type { Completion, OnCompleted } from "./completion.ts";
import { corsHeadersFor } from "./cors.ts";
import type { EndingConnections } from "./http-server.ts";
import { createRateLimits, type RateLimitDeps, type RateLimits } from "./rate-limits.ts";
import { createRecordRefusal } from "./refused-calls.ts";
import { guardRequest, guardUpstreamPath } from "./request-guard.ts";
import { createRequestLog } from "./request-log.ts";
import type { GatewayApp, Upgrade } from "./request-state.ts";
import type { StallWatch } from "./stall-watch.ts";
import { setStandardHeaders } from "./standard-headers.ts";
import { closeIfUnread } from "./unread-body.ts";

export interface HookDeps extends RateLimitDeps {
  verifier: Pick<TokenVerifier, "verify">;
  recorder: AuditRecorder;
  recordOutcome: RecordOutcome;
  proxies: ProxyTable;
  allowedHosts: ReadonlySet<string>;
  allowedOrigins: ReadonlySet<string>;
  stalls: StallWatch;
  completion: Completion;
  upgradeOf: (request: IncomingMessage) => Upgrade | null;
  ending: EndingConnections;
  notFound: (request: FastifyRequest, reply: FastifyReply) => FastifyReply;
}

/** Own routes validate before the audit intent. */
export function addRequestHooks(app: GatewayApp, deps: HookDeps): void {
  const { completion, recordOutcome } = deps;
  decorateRequests(app);
  app.addHook("onRequest", (request, reply, done) => {
    begin(request, deps);
    completion.watch(request, reply);
    // A forwarded response and the error handler set them later.
    if (request.target === null || request.policy === null) setStandardHeaders(request, reply);
    done();
  });
  const limits = createRateLimits(deps);
  app.addHook("onRequest", createGuard(deps.allowedHosts, deps.ending, limits));
  app.addHook("onRequest", limits.enter);
  app.addHook("onRequest", limits.beforeLogin);
  app.addHook("onRequest", createAuthenticate(deps.verifier));
  app.addHook("onRequest", limits.afterLogin);
  app.addHook("onRequest", (request, reply, done) => {
    // Unknown routes are answered before their body is read.
    if (request.policy === null) deps.notFound(request, reply);
    else done();
  });
  app.addHook("preParsing", (request, reply, _payload, done) => {
    // A forwarded call requests its body after its intent is recorded.
    if (request.target === null) {
      assertReadable(request);
      if (request.headers.expect !== undefined) reply.raw.writeContinue();
    }
    done();
  });
  app.addHook("preHandler", createSecondLook(deps.verifier));
  app.addHook("preHandler", createIntentHook(deps.recorder));
  app.addHook("onSend", (request, reply, _payload, done) => {
    closeIfUnread(request, reply);
    completion.decided(request, reply);
    limits.noteAnswer(request, reply);
    if (request.audited === null) done();
    else recordOutcome(request, reply).then(() => done(), done);
  });
}

export function createOnCompleted(deps: {
  recorder: AuditRecorder;
  logger: Logger;
  metrics: Metrics;
}): OnCompleted {
  const { recorder, logger } = deps;
  const enqueueOutcome = createEnqueueOutcome(recorder, logger);
  const logRequest = createRequestLog(logger, deps.metrics);
  const recordRefusal = createRecordRefusal(recorder, deps.metrics, () => performance.now());
  return (request, reply) => {
    logRequest(request, reply);
    endSpan(request, reply);
    enqueueOutcome(request, reply);
    if (request.refusedActor !== null) recordRefusal(request, request.refusedActor, reply.statusCode);
  };
}

function decorateRequests(app: GatewayApp): void {
  app.decorateRequest("call", undefined as never);
  app.decorateRequest("span", undefined as never);
  app.decorateRequest("startedMs", 0);
  app.decorateRequest("target", null);
  app.decorateRequest("policy", null);
  app.decorateRequest("exchange", null);
  app.decorateRequest("upgrade", null);
  app.decorateRequest("corsHeaders", undefined as never);
  app.decorateRequest("isDecided", false);
  app.decorateRequest("isClosed", false);
  app.decorateRequest("leave", null);
  app.decorateRequest("principal", null);
  app.decorateRequest("accessToken", "");
  app.decorateRequest("tokenFailure", null);
  app.decorateRequest("refusedActor", null);
  app.decorateRequest("provenActor", null);
  app.decorateRequest("givenDeviceToken", null);
  app.decorateRequest("audited", null);
  app.decorateRequest("errorCode", null);
  app.decorateRequest("isEffectUncertain", false);
}

function begin(request: FastifyRequest, deps: HookDeps): void {
  const { raw } = request;
  const { traceparent } = request.headers;
  request.startedMs = performance.now();
  request.call = newCallContext({
    requestId: request.id,
    traceparent: typeof traceparent === "string" ? traceparent : undefined,
  });
  request.upgrade = deps.upgradeOf(raw);
  chooseRoute(request, deps.proxies);
  request.span = startSpan("server", `${request.method} ${patternOf(request)}`, request.call.traceparent);
  request.call.traceparent = request.span.traceparent;
  const origins = request.target?.route.allowedOriginSet ?? deps.allowedOrigins;
  request.corsHeaders = corsHeadersFor(request, origins);
  const { "content-length": length = "0", "transfer-encoding": encoding } = request.headers;
  if (length !== "0" || encoding !== undefined) deps.stalls.watchBody(request);
}

/** Policy depends on the matched route, never on the URL text. */
function chooseRoute(request: FastifyRequest, proxies: ProxyTable): void {
  const { config } = request.routeOptions;
  // A 404 of the router may be a proxied path.
  if (!request.is404 && !config.isProxy) {
    const { auth, action, hasEffect, orRefreshToken } = config;
    if (auth === undefined) throw new Error(`${config.url} does not say who may call it`);
    request.policy = {
      auth,
      ...(action !== undefined && { action }),
      ...(hasEffect !== undefined && { hasEffect }),
      ...(orRefreshToken !== undefined && { orRefreshToken }),
      pattern: config.url,
    };
    return;
  }
  const path = pathOf(request);
  const target = proxies.find(path);
  if (target === undefined) return;
  const isExact = path.length === target.version.length + target.route.prefix.length;
  request.target = target;
  request.policy = (isExact ? target.exact : target.below).get(request.method) ?? null;
}

function pathOf({ raw: { url = "" } }: FastifyRequest): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}

function createIntentHook(recorder: AuditRecorder) {
  const recordIntent = createRecordIntent(recorder);
  return (request: FastifyRequest, _reply: unknown, done: HookHandlerDoneFunction): void => {
    // The budget begins after the request was read, so a slow upload does not use it.
    request.call.deadlineMs = Date.now() + CALL_BUDGET_MS;
    if (isAudited(request)) recordIntent(request).then(() => done(), done);
    else done();
  };
}

function patternOf(request: FastifyRequest): string {
  return request.policy?.pattern ?? "(none)";
}

function endSpan(request: FastifyRequest, reply: FastifyReply): void {
  const { statusCode } = reply;
  request.span.end(
    {
      "http.request.method": request.method,
      "http.route": patternOf(request),
      "http.response.status_code": statusCode,
      "gatehouse.request_id": request.id,
    },
    statusCode >= 500 ? (request.errorCode ?? String(statusCode)) : undefined,
  );
}

/** @throws {DomainError} if the headers show that the body cannot be read. */
function assertReadable({ headers, routeOptions }: FastifyRequest): void {
  const coding = headers["content-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "identity") {
    throw new DomainError("unsupported_media_type", "Bodies are read without a content coding only.");
  }
  if (Number(headers["content-length"] ?? 0) > (routeOptions.bodyLimit ?? Number.POSITIVE_INFINITY)) {
    throw new DomainError("payload_too_large");
  }
}

/** An ambiguous request ends its connection. */
function createGuard(
  allowedHosts: ReadonlySet<string>,
  ending: EndingConnections,
  limits: Pick<RateLimits, "refusedByGuard">,
) {
  return (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    try {
      if (ending.has(request.raw.socket)) throw new DomainError("bad_request");
      guardRequest(request.raw, allowedHosts);
      if (request.target?.route.strictPaths) guardUpstreamPath(pathOf(request));
      if (request.raw.headers.upgrade !== undefined && request.upgrade === null) {
        // The parser stops at an upgrade and drops the data after it, even if refused.
        ending.add(request.raw.socket);
        reply.raw.shouldKeepAlive = false;
      }
    } catch (error) {
      ending.add(request.raw.socket);
      reply.header("connection", "close");
      done(limits.refusedByGuard(request, error as Error));
      return;
    }
    done();
  };
}
