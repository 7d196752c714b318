import type { Socket } from "node:net";
import type { FastifyReply, FastifyRequest } from "fastify";
import type { AuditRecorder } from "../audit-client/audit-entry.ts";
import { CALL_BUDGET_MS, newCallContext } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import { startSpan } from "../service-kit/tracing.ts";
import type { TokenVerifier } from "../token-client/principal.ts";
import { auditOutcome, createRecordIntent } from "./audit.ts";
import { createAuthenticate } from "./authenticate.ts";
import { onCompleted } from "./completion.ts";
import { guardRequest } from "./request-guard.ts";
import { createRequestLog, routeOf } from "./request-log.ts";
import type { GatewayApp } from "./request-state.ts";
import { setStandardHeaders } from "./standard-headers.ts";
import { closeIfUnread } from "./unread-body.ts";

export interface HookDeps {
  verifier: Pick<TokenVerifier, "verify">;
  recorder: AuditRecorder;
  allowedHosts: ReadonlySet<string>;
  logger: Logger;
  metrics: Metrics;
}

/** What every request passes, proxied ones included, in this order. Own routes validate before the audit intent. */
export function addRequestHooks(app: GatewayApp, deps: HookDeps): void {
  const { logger, recorder } = deps;
  const logRequest = createRequestLog(logger, deps.metrics);
  decorateRequests(app);
  app.addHook("onRequest", async (request, reply) => {
    request.startedMs = performance.now();
    request.call = contextOf(request);
    request.span = startSpan("server", `${request.method} ${routeOf(request)}`, request.call.traceparent);
    request.call.traceparent = request.span.traceparent;
    setStandardHeaders(request, reply);
  });
  onCompleted(app, (request, reply) => {
    logRequest(request, reply);
    endSpan(request, reply);
    const outcome = auditOutcome(request, reply);
    if (outcome === undefined) return;
    try {
      recorder.enqueue(outcome);
    } catch (error) {
      // The intent is stored; without an outcome it will be closed as unknown.
      logger.error({ err: error, requestId: request.id }, "audit outcome lost");
    }
  });
  app.addHook("onRequest", createGuard(deps.allowedHosts));
  app.addHook("onRequest", createAuthenticate(deps.verifier));
  app.addHook("preHandler", async (request) => {
    // The budget of the work begins when the request has been read, however slowly the client sent it.
    request.call = { ...request.call, deadlineMs: Date.now() + CALL_BUDGET_MS };
  });
  app.addHook("preHandler", createRecordIntent(recorder));
  app.addHook("onSend", async (request, reply) => closeIfUnread(request, reply));
}

/** The empty state of a request. */
function decorateRequests(app: GatewayApp): void {
  // Replaced for each request by the first hook; here for the shape.
  app.decorateRequest("call", undefined as never);
  app.decorateRequest("span", undefined as never);
  app.decorateRequest("startedMs", 0);
  app.decorateRequest("principal", null);
  app.decorateRequest("accessToken", "");
  app.decorateRequest("provenActor", null);
  app.decorateRequest("audited", null);
  app.decorateRequest("errorCode", null);
  app.decorateRequest("isEffectUncertain", false);
}

function contextOf(request: FastifyRequest) {
  const { traceparent } = request.headers;
  const context = newCallContext(typeof traceparent === "string" ? { traceparent } : {});
  return { ...context, requestId: request.id };
}

/** Names and numbers only: what a client wrote stays out of traces as it stays out of logs. */
function endSpan(request: FastifyRequest, reply: FastifyReply): void {
  const { statusCode } = reply;
  request.span.end(
    {
      "http.request.method": request.method,
      "http.route": routeOf(request),
      "http.response.status_code": statusCode,
      "gatehouse.request_id": request.id,
    },
    statusCode >= 500 ? (request.errorCode ?? String(statusCode)) : undefined,
  );
}

/** The guard as a hook. A connection that sent something ambiguous is closed; what follows on it is not served. */
function createGuard(allowedHosts: ReadonlySet<string>) {
  const refused = new WeakSet<Socket>();
  return async (request: FastifyRequest, reply: { header(name: string, value: string): unknown }) => {
    try {
      if (refused.has(request.socket)) throw new DomainError("bad_request");
      guardRequest(request.raw, allowedHosts);
    } catch (error) {
      refused.add(request.socket);
      reply.header("connection", "close");
      throw error;
    }
  };
}
