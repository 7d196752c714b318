import type { Socket } from "node:net";
import type { FastifyRequest } from "fastify";
import type { AuditRecorder } from "../audit-client/audit-entry.ts";
import { CALL_BUDGET_MS, newCallContext } from "../service-kit/call-context.ts";
import { DomainError } from "../service-kit/errors.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import type { TokenVerifier } from "../token-client/principal.ts";
import { createEnqueueOutcome, createRecordIntent, createRecordOutcome } from "./audit.ts";
import { createAuthenticate } from "./authenticate.ts";
import { onCompleted } from "./completion.ts";
import { guardRequest } from "./request-guard.ts";
import { createRequestLog } from "./request-log.ts";
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
  const enqueueOutcome = createEnqueueOutcome(recorder, logger);
  decorateRequests(app);
  app.addHook("onRequest", async (request, reply) => {
    request.startedMs = performance.now();
    request.call = contextOf(request);
    setStandardHeaders(request, reply);
  });
  onCompleted(app, (request, reply) => {
    logRequest(request, reply);
    enqueueOutcome(request, reply);
  });
  app.addHook("onRequest", createGuard(deps.allowedHosts));
  app.addHook("onRequest", createAuthenticate(deps.verifier));
  app.addHook("preHandler", async (request) => {
    // The budget of the work begins when the request has been read, however slowly the client sent it.
    request.call = { ...request.call, deadlineMs: Date.now() + CALL_BUDGET_MS };
  });
  app.addHook("preHandler", createRecordIntent(recorder));
  app.addHook("onSend", async (request, reply) => closeIfUnread(request, reply));
  app.addHook("onSend", createRecordOutcome(recorder, logger));
}

/** The empty state of a request. */
function decorateRequests(app: GatewayApp): void {
  // Replaced for each request by the first hook; here for the shape.
  app.decorateRequest("call", undefined as never);
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
