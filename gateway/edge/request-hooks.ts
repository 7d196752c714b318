import type { IncomingMessage } from "node:http";
import type { FastifyReply, FastifyRequest, HookHandlerDoneFunction } from "fastify";
import type { AuditRecorder } from "#audit-client/stream/audit-entry.ts";
import { CALL_BUDGET_MS, newCallContext } from "#kit/rpc/call-context.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { Metrics } from "#kit/telemetry/metrics.ts";
import { startSpan } from "#kit/telemetry/tracing.ts";
import { DomainError } from "#kit/values/errors.ts";
import type { KnownPaths } from "../routing/known-paths.ts";
import { type ProxyTable, policyAt } from "../routing/proxy-table.ts";
import type { RequestPolicy } from "../routing/route-policy.ts";
import { corsHeadersFor } from "./answers/cors.ts";
import { setStandardHeaders } from "./answers/standard-headers.ts";
import type { AuditTrail } from "./audit.ts";
import {
  type AuthenticateDeps,
  createAuthenticate,
  createSecondLook,
  createUseProof,
} from "./authenticate.ts";
import type { EndingConnections } from "./http-server.ts";
import { createOwnTurns } from "./own-turns.ts";
import { type RateLimitDeps, RateLimits } from "./rate-limits.ts";
import { createRecordRefusal } from "./refused-calls.ts";
import { guardBrowserSession } from "./request/browser-session.ts";
import { ClientGone, type Completion, type OnCompleted } from "./request/completion.ts";
import { askForBody, closeIfUnread } from "./request/request-body.ts";
import { type GatewayApp, RequestState, type Upgrade, writableState } from "./request/request-state.ts";
import { guardRequest, guardUpstreamPath } from "./request-guard.ts";
import { createRequestLog } from "./request-log.ts";
import type { StallWatch } from "./stall-watch.ts";

export interface HookDeps extends RateLimitDeps, AuthenticateDeps {
  audit: AuditTrail;
  proxies: ProxyTable;
  allowedHosts: ReadonlySet<string>;
  allowedOrigins: ReadonlySet<string>;
  /** No route of the routes file is served on its host. */
  pagesOrigin?: string | undefined;
  stalls: StallWatch;
  completion: Completion;
  upgradeOf: (request: IncomingMessage) => Upgrade | null;
  ending: EndingConnections;
  paths: Pick<KnownPaths, "cookiesOf">;
  notFound: (request: FastifyRequest, reply: FastifyReply) => FastifyReply;
  /** Of each call, for all that the gateway asks of other services. */
  callBudgetMs?: number;
}

export function addRequestHooks(app: GatewayApp, deps: HookDeps): void {
  const { completion, audit } = deps;
  app.decorateRequest("state", undefined as never);
  app.addHook("onRequest", (request, reply, done) => {
    request.state = begin(request, deps);
    completion.watch(request, reply);
    // A forwarded response and the error handler set them later.
    const { target, policy } = request.state;
    if (target === null || policy === null) setStandardHeaders(request, reply);
    done();
  });
  const limits = new RateLimits(deps);
  app.addHook("onRequest", createGuard(deps, limits));
  app.addHook("onRequest", limits.enter);
  app.addHook("onRequest", (request, _reply, done) => {
    guardBrowserSession(request, deps.allowedOrigins);
    done();
  });
  app.addHook("onRequest", limits.beforeAuthentication);
  app.addHook("onRequest", createAuthenticate(deps));
  app.addHook("onRequest", limits.afterAuthentication);
  app.addHook("onRequest", createUseProof(deps));
  app.addHook("onRequest", (request, reply, done) => {
    // Before its body is read.
    if (request.state.policy === null) deps.notFound(request, reply);
    else done();
  });
  app.addHook("preParsing", (request, reply, _payload, done) => {
    // Other forwarded calls request their body after their intent is recorded.
    const { target, policy } = request.state;
    if (target === null || policy?.approval !== undefined) {
      // A body that was cut off before anybody listened never ends.
      if (request.raw.destroyed) throw new ClientGone();
      assertReadable(request);
      askForBody(request, reply);
    }
    done();
  });
  const turns = createOwnTurns();
  app.addHook("preHandler", turns.wait);
  app.addHook("preHandler", createSecondLook(deps));
  app.addHook("preHandler", limits.beforeWork);
  app.addHook("preHandler", createIntentHook(audit, deps.callBudgetMs));
  app.addHook("onSend", (request, reply, _payload, done) => {
    closeIfUnread(request, reply);
    completion.decided(request, reply);
    limits.noteAnswer(request, reply);
    if (request.state.dpopNonce !== null) reply.header("dpop-nonce", request.state.dpopNonce);
    const end = () => {
      turns.end(request);
      done();
    };
    const durable = audit.recordOutcome(request, reply);
    if (durable === undefined) end();
    else durable.then(end, done);
  });
}

export function createOnCompleted(deps: {
  audit: AuditTrail;
  nextRecorder: () => AuditRecorder;
  logger: Logger;
  metrics: Metrics;
}): OnCompleted {
  const { audit, nextRecorder, logger, metrics } = deps;
  const logRequest = createRequestLog(logger, metrics);
  const recordRefusal = createRecordRefusal(nextRecorder, metrics, () => performance.now());
  return (request, reply) => {
    logRequest(request, reply);
    endSpan(request, reply);
    void audit.recordOutcome(request, reply);
    const actor = request.state.refusal?.actor ?? null;
    if (actor !== null) recordRefusal(request, actor, reply.statusCode);
  };
}

function begin(request: FastifyRequest, deps: HookDeps): RequestState {
  const startedMs = performance.now();
  const { traceparent, "content-length": length = "0", "transfer-encoding": encoding } = request.headers;
  const call = newCallContext({
    requestId: request.id,
    traceparent: typeof traceparent === "string" ? traceparent : undefined,
    budgetMs: deps.callBudgetMs,
  });
  const { target, policy } = chooseRoute(request, deps.proxies);
  const span = startSpan("server", `${request.method} ${patternOf(policy)}`, call.traceparent);
  call.traceparent = span.traceparent;
  const upgrade = deps.upgradeOf(request.raw);
  const corsHeaders = corsHeadersFor(request, target?.route.allowedOriginSet ?? deps.allowedOrigins, () =>
    target === null ? (policy?.cookies ?? deps.paths.cookiesOf(pathOf(request))) !== undefined : true,
  );
  if (length !== "0" || encoding !== undefined) deps.stalls.watchBody(request);
  return new RequestState({ startedMs, call, span, target, policy, upgrade, corsHeaders });
}

/** Policy depends on the matched route, never on the URL text. */
function chooseRoute(request: FastifyRequest, proxies: ProxyTable): Pick<RequestState, "target" | "policy"> {
  const { config } = request.routeOptions;
  // A 404 of the router may be a proxied path.
  if (!request.is404 && !config.isProxy) {
    const { auth, permissions, action, assurance, isAudited, orTokenInBody, cookies, issuesTokens } = config;
    if (auth === undefined) throw new Error(`${config.url} does not say who may call it`);
    const policy = {
      auth,
      ...(permissions !== undefined && { permissions }),
      ...(action !== undefined && { action }),
      ...(assurance !== undefined && { assurance }),
      ...(isAudited !== undefined && { isAudited }),
      ...(orTokenInBody !== undefined && { orTokenInBody }),
      ...(cookies !== undefined && { cookies }),
      ...(issuesTokens !== undefined && { issuesTokens }),
      pattern: config.url,
    };
    return { target: null, policy };
  }
  const path = pathOf(request);
  const target = proxies.find(path);
  if (target === undefined) return { target: null, policy: null };
  return { target, policy: policyAt(target, path, request.method) };
}

function pathOf({ raw: { url = "" } }: FastifyRequest): string {
  const query = url.indexOf("?");
  return query === -1 ? url : url.slice(0, query);
}

function createIntentHook(audit: AuditTrail, budgetMs = CALL_BUDGET_MS) {
  return (request: FastifyRequest, _reply: unknown, done: HookHandlerDoneFunction): void => {
    // A slow upload does not use up the budget.
    writableState(request).call.deadlineMs = Date.now() + budgetMs;
    const durable = audit.recordIntent(request);
    if (durable === undefined) done();
    else durable.then(() => done(), done);
  };
}

function patternOf(policy: RequestPolicy | null): string {
  return policy?.pattern ?? "(none)";
}

function endSpan({ id, method, state }: FastifyRequest, { statusCode }: FastifyReply): void {
  state.span.end(
    {
      "http.request.method": method,
      "http.route": patternOf(state.policy),
      "http.response.status_code": statusCode,
      "gatehouse.request_id": id,
    },
    statusCode >= 500 ? (state.errorCode ?? String(statusCode)) : undefined,
  );
}

function assertReadable({ headers, routeOptions }: FastifyRequest): void {
  const coding = headers["content-encoding"];
  if (coding !== undefined && coding.toLowerCase() !== "identity") {
    throw new DomainError("unsupported_media_type", "Bodies are read without a content coding only.");
  }
  const { bodyLimit = Number.POSITIVE_INFINITY, config } = routeOptions;
  if (config.isProxy === undefined && Number(headers["content-length"] ?? 0) > bodyLimit) {
    throw new DomainError("payload_too_large");
  }
}

function createGuard(
  { allowedHosts, pagesOrigin, ending }: Pick<HookDeps, "allowedHosts" | "pagesOrigin" | "ending">,
  limits: Pick<RateLimits, "refusedByGuard">,
) {
  const pagesHost = pagesOrigin && new URL(pagesOrigin).host;
  return (request: FastifyRequest, reply: FastifyReply, done: HookHandlerDoneFunction): void => {
    try {
      if (ending.has(request.raw.socket)) throw new DomainError("bad_request");
      guardRequest(request.raw, { target: request.originalUrl, scheme: request.protocol }, allowedHosts);
      if (request.state.target !== null && request.headers.host === pagesHost)
        throw new DomainError("misdirected_request");
      if (request.state.target?.route.strictPaths) guardUpstreamPath(pathOf(request));
      if (request.raw.headers.upgrade !== undefined && request.state.upgrade === null) {
        // The parser drops the data after an upgrade, even if refused.
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
