import fastify, { LogController } from "fastify";
import type { AuditRecorder } from "../audit-client/audit-entry.ts";
import type { Logger } from "../service-kit/logger.ts";
import type { Metrics } from "../service-kit/metrics.ts";
import type { TokenVerifier } from "../token-client/principal.ts";
import type { AccountClient } from "./account-client.ts";
import { registerAccountRoutes } from "./account-routes.ts";
import { registerAdminRoutes } from "./admin-routes.ts";
import { createRecordOutcome } from "./audit.ts";
import type { AuditQueryClient } from "./audit-query-client.ts";
import { registerAuthRoutes } from "./auth-routes.ts";
import { answerClientError } from "./client-error.ts";
import { createCompletion } from "./completion.ts";
import type { DocumentedRoute } from "./documented-route.ts";
import { createErrorHandler } from "./error-handler.ts";
import { createHttpServer, type EndingConnections } from "./http-server.ts";
import type { IdentityClient } from "./identity-client.ts";
import { registerIdentityLinkRoutes } from "./identity-link-routes.ts";
import { type IntrospectionDeps, registerIntrospectionRoutes } from "./introspection-routes.ts";
import { registerJsonParser } from "./json-parser.ts";
import type { JwksCache } from "./jwks-cache.ts";
import { registerJwksRoute } from "./jwks-route.ts";
import { createKnownPaths, type KnownPaths } from "./known-paths.ts";
import { limitClassOf } from "./limit-class.ts";
import type { MfaClient } from "./mfa-client.ts";
import { registerMfaRoutes } from "./mfa-routes.ts";
import { createNotFoundHandler } from "./not-found.ts";
import type { NoteReading } from "./note-reading.ts";
import type { OAuthClient } from "./oauth-client.ts";
import type { TokenDelivery } from "./oauth-redirect.ts";
import { registerOAuthRoutes } from "./oauth-routes.ts";
import { OpenExchanges } from "./open-exchanges.ts";
import { noteRoutes, registerOpenApiRoutes } from "./openapi-routes.ts";
import { registerProxyRoutes } from "./proxy-routes.ts";
import { type ProxyTable, VERSION_PREFIXES } from "./proxy-table.ts";
import type { RateLimitDeps } from "./rate-limits.ts";
import { addRequestHooks, createOnCompleted } from "./request-hooks.ts";
import { requestIdOf } from "./request-id.ts";
import type { GatewayApp } from "./request-state.ts";
import { assertRoutePolicy } from "./route-policy.ts";
import type { SessionClient } from "./session-client.ts";
import { registerSessionRoutes } from "./session-routes.ts";
import { StallWatch } from "./stall-watch.ts";
import type { IsTrustedProxy } from "./trusted-proxies.ts";
import type { UserAdminClient } from "./user-admin-client.ts";
import { registerUserAdminRoutes } from "./user-admin-routes.ts";
import { validateRequest } from "./validate.ts";
import { acceptUpgrades, asksForWebSocket, WebSockets } from "./websocket.ts";

/** What the gateway is made of. */
export interface GatewayDeps extends Pick<IntrospectionDeps, "introspectionClients">, RateLimitDeps {
  identity: IdentityClient;
  accounts: AccountClient;
  mfa: MfaClient;
  oauth: OAuthClient;
  /** How tokens come back from a login at an identity provider. */
  tokenDelivery: TokenDelivery;
  users: UserAdminClient;
  sessions: SessionClient;
  auditQuery: AuditQueryClient;
  jwks: Pick<JwksCache, "get">;
  verifier: TokenVerifier;
  recorder: AuditRecorder;
  noteReading: NoteReading;
  proxies: ProxyTable;
  allowedHosts: ReadonlySet<string>;
  /** Origins of web pages whose scripts may call our own paths. */
  allowedOrigins: ReadonlySet<string>;
  /** Open WebSockets at a time. */
  maxWebSockets: number;
  /** Whether the process is in its drain delay, about to stop. */
  isDraining: () => boolean;
  isTrustedProxy: IsTrustedProxy;
  logger: Logger;
  metrics: Metrics;
}

const BODY_LIMIT_BYTES = 16 * 1024;
/**
 * The gateway's HTTP side, not yet listening. A request passes: guard, rate limits, authentication and permission,
 * validation, audit intent, handler; and leaves through `error-handler.ts` if one of them refuses.
 *
 * @throws if a route does not say who may call it, or lacks the name its audit entries need.
 */
export function buildApp(deps: GatewayDeps): GatewayApp {
  const handleError = createErrorHandler(deps.logger);
  const ending: EndingConnections = new WeakSet();
  const app: GatewayApp = fastify({
    loggerInstance: deps.logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: "requestId" }),
    genReqId: (request) => requestIdOf(request, deps.isTrustedProxy),
    trustProxy: deps.isTrustedProxy,
    bodyLimit: BODY_LIMIT_BYTES,
    // A child for each request would only repeat the request's id.
    childLoggerFactory: (logger) => logger,
    // While closing, what is already on an open connection is still served, with `Connection: close`.
    return503OnClosing: false,
    serverFactory: (serve) =>
      createHttpServer(
        serve,
        ending,
        (request) => asksForWebSocket(request, deps.proxies),
        () => deps.isDraining(),
      ),
    frameworkErrors: (error, request, reply) => {
      // It has passed no guard: what follows on its connection may not be what it seems.
      ending.add(request.raw.socket);
      handleError(error, request, reply.header("connection", "close"));
    },
    clientErrorHandler: answerClientError,
  }).withTypeProvider();
  const paths = createKnownPaths();

  app.removeAllContentTypeParsers();
  // Schemas are checked by `validateRequest`, all parts of a request together.
  app.setValidatorCompiler(() => (value) => ({ value }));
  app.setErrorHandler(handleError);
  const notFound = createNotFoundHandler(paths);
  app.setNotFoundHandler(notFound);
  app.addHook("onRoute", assertRoutePolicy);
  app.addHook("onRoute", (route) => {
    if (route.config?.isProxy) return;
    paths.add(route.url, [route.method].flat());
    route.config = { ...route.config, limitClass: limitClassOf(route.url) };
  });
  const stalls = new StallWatch();
  const completion = createCompletion(createOnCompleted(deps));
  const recordOutcome = createRecordOutcome(deps.recorder, deps.logger);
  const exchanges = new OpenExchanges(deps);
  const webSockets = new WebSockets({ ...deps, exchanges, completion });
  const upgradeOf = acceptUpgrades(app);
  addRequestHooks(app, { ...deps, stalls, completion, recordOutcome, upgradeOf, ending, notFound });
  app.addHook("preClose", async () => webSockets.close());
  app.addHook("onClose", async () => {
    stalls.close();
    exchanges.close();
    await deps.proxies.close();
  });
  const documented: DocumentedRoute[] = [];
  app.register(async (scope: GatewayApp) => registerOpenApiRoutes(scope, documented));
  for (const prefix of VERSION_PREFIXES) {
    app.register(
      async (scope: GatewayApp) => {
        if (prefix === "") noteRoutes(scope, documented);
        registerOwnRoutes(scope, deps, paths);
      },
      { prefix },
    );
  }
  app.register(async (scope: GatewayApp) =>
    registerProxyRoutes(scope, { stalls, exchanges, completion, recordOutcome, webSockets }),
  );
  return app;
}

function registerOwnRoutes(app: GatewayApp, deps: GatewayDeps, paths: KnownPaths): void {
  registerJsonParser(app);
  app.addHook("onRequest", async (_request, reply) => {
    reply.header("cache-control", "no-store");
  });
  app.addHook("preValidation", validateRequest);
  registerAuthRoutes(app, deps);
  registerSessionRoutes(app, deps);
  registerMfaRoutes(app, deps);
  registerAccountRoutes(app, deps);
  registerOAuthRoutes(app, deps, paths);
  registerIdentityLinkRoutes(app, deps);
  registerAdminRoutes(app, deps);
  registerUserAdminRoutes(app, deps);
  registerJwksRoute(app, deps.jwks);
  registerIntrospectionRoutes(app, deps);
}
