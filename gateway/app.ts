import { fastifyCookie } from "@fastify/cookie";
import fastify, { LogController } from "fastify";
import type { AccessRules } from "#access-file/access-rules.ts";
import type { AuditRecorder } from "#audit-client/stream/audit-entry.ts";
import { createRepeatedRecorder, type RecordRepeated } from "#audit-client/stream/record-reading.ts";
import type { Logger } from "#kit/telemetry/logger.ts";
import type { AssuranceDemand } from "#token-client/assurance.ts";
import type { TokenVerifier } from "#token-client/principal.ts";
import { registerAuditExportRoutes } from "./admin/audit-export-routes.ts";
import { registerAuditMonitorRoutes } from "./admin/audit-monitor-routes.ts";
import { registerAuditRoutes } from "./admin/audit-routes.ts";
import { registerClientAdminRoutes } from "./admin/client-routes.ts";
import { registerRoleRoutes } from "./admin/role-routes.ts";
import { registerSystemRoutes, type SystemDeps } from "./admin/system-routes.ts";
import { registerUserAdminRoutes } from "./admin/user-admin-routes.ts";
import { registerWebhookRoutes } from "./admin/webhook-routes.ts";
import { registerAccountRoutes } from "./auth/account-routes.ts";
import { registerActivityRoutes } from "./auth/activity-routes.ts";
import { registerApprovalRoutes } from "./auth/approval-routes.ts";
import { registerAuthRoutes } from "./auth/auth-routes.ts";
import { registerDeviceSessionRoutes } from "./auth/device-session-routes.ts";
import { registerIdentityLinkRoutes } from "./auth/identity-link-routes.ts";
import { registerLinkRoutes } from "./auth/link-routes.ts";
import { registerMfaRoutes } from "./auth/mfa-routes.ts";
import { type OAuthDeps, registerOAuthRoutes } from "./auth/oauth-routes.ts";
import { registerPasskeyRoutes } from "./auth/passkey-routes.ts";
import { type ReturnDeps, registerReturnRoutes } from "./auth/return-to.ts";
import { registerSecurityEventRoutes } from "./auth/security-event-routes.ts";
import { registerSessionRoutes } from "./auth/session-routes.ts";
import { registerStepUpRoutes } from "./auth/step-up-routes.ts";
import type { Backends } from "./backends/backends.ts";
import { createClientErrorHandler, type ReceivedRequests } from "./edge/answers/client-error.ts";
import { createAuditTrail, type NoteReading } from "./edge/audit.ts";
import { createErrorHandler, createNotFoundHandler } from "./edge/error-handler.ts";
import { createHttpServer, type EndingConnections } from "./edge/http-server.ts";
import { normalizeRequest } from "./edge/proofs/authority.ts";
import { ProofsOfKeys, type ProofsOfKeysDeps } from "./edge/proofs-of-keys.ts";
import type { RateLimitDeps } from "./edge/rate-limits.ts";
import { createCompletion } from "./edge/request/completion.ts";
import { registerJsonParser } from "./edge/request/request-body.ts";
import type { GatewayApp } from "./edge/request/request-state.ts";
import { type IsTrustedProxy, requestIdOf } from "./edge/request/trusted-proxies.ts";
import { validateRequest } from "./edge/request/validate.ts";
import { addRequestHooks, createOnCompleted, type HookDeps } from "./edge/request-hooks.ts";
import { StallWatch } from "./edge/stall-watch.ts";
import { type IntrospectionDeps, registerIntrospectionRoutes } from "./oauth-server/introspection-routes.ts";
import { registerMetadataRoutes } from "./oauth-server/metadata-routes.ts";
import { registerTokenRoutes } from "./oauth-server/token-routes.ts";
import type { DocumentedRoute } from "./openapi/documented-route.ts";
import { noteRoutes, registerOpenApiRoutes } from "./openapi/openapi-routes.ts";
import { logoImage, propertiesOf } from "./pages/index-page.ts";
import { answerMissingPage, type PagesDeps, registerPageRoutes } from "./pages/page-routes.ts";
import { OpenExchanges } from "./proxy/open-exchanges.ts";
import { registerProxyRoutes } from "./proxy/proxy-routes.ts";
import { UpstreamTokens, type UpstreamTokensDeps } from "./proxy/upstream-tokens.ts";
import { acceptUpgrades, asksForWebSocket, WebSockets } from "./proxy/websocket.ts";
import { createKnownPaths, type KnownPaths } from "./routing/known-paths.ts";
import { VERSION_PREFIXES } from "./routing/proxy-table.ts";
import { assertRoutePolicy, createAdminPolicy } from "./routing/route-policy.ts";
import { type JwksCache, registerJwksRoute } from "./services/jwks-cache.ts";
import { registerSignalRoutes } from "./services/signal-routes.ts";

export interface GatewayDeps
  extends Omit<Backends, "tokens">,
    Pick<IntrospectionDeps, "introspectionClients">,
    Pick<OAuthDeps, "tokenDelivery">,
    Pick<HookDeps, "proxies" | "allowedHosts" | "allowedOrigins" | "callBudgetMs">,
    ProofsOfKeysDeps,
    Pick<UpstreamTokensDeps, "isKeyBanned" | "maxUpstreamTokens" | "exchangeTimeoutMs">,
    RateLimitDeps,
    PagesDeps,
    ReturnDeps,
    Pick<SystemDeps, "redis"> {
  nextRecorder: () => AuditRecorder;
  jwks: Pick<JwksCache, "get">;
  bindsToCertificates: boolean;
  deviceBoundSessions: boolean;
  /** @throws {DomainError} `service_unavailable` before token-service was reached once. */
  tokenIssuer: () => string;
  verifier: TokenVerifier;
  access: AccessRules;
  noteReading: NoteReading;
  /** Of calls under `/admin`. */
  adminAssurance?: AssuranceDemand | undefined;
  maxWebSockets: number;
  isDraining: () => boolean;
  isTrustedProxy: IsTrustedProxy;
  logger: Logger;
}

const PORTAL = "/account";
const BODY_LIMIT_BYTES = 16 * 1024;
/**
 * Order: guard, rate limits, authentication, validation, audit intent, handler.
 * @throws as `assertRoutePolicy`.
 */
export function buildApp(deps: GatewayDeps): GatewayApp {
  const handleError = createErrorHandler(deps.logger);
  const ending: EndingConnections = new WeakSet();
  const app = createApp(deps, handleError, ending);
  const paths = createKnownPaths();

  app.removeAllContentTypeParsers();
  // `validateRequest` checks all parts together.
  app.setValidatorCompiler(() => (value) => ({ value }));
  app.setErrorHandler(handleError);
  const notFound = createNotFoundHandler(paths, answerMissingPage(deps));
  app.setNotFoundHandler(notFound);
  app.addHook("onRoute", assertRoutePolicy);
  app.addHook("onRoute", (route) => {
    if (!route.config?.isProxy) paths.add(route.url, [route.method].flat(), route.config?.cookies);
  });
  const stalls = new StallWatch();
  const audit = createAuditTrail(deps.nextRecorder, deps.logger);
  const completion = createCompletion(createOnCompleted({ ...deps, audit }));
  const exchanges = new OpenExchanges(deps);
  const webSockets = new WebSockets({ ...deps, exchanges, completion });
  const upstreamTokens = new UpstreamTokens(deps);
  const upgradeOf = acceptUpgrades(app);
  const proofsOfKeys = new ProofsOfKeys(deps);
  const recordRepeated = createRepeatedRecorder(() => performance.now());
  addRequestHooks(app, {
    ...deps,
    proofsOfKeys,
    stalls,
    completion,
    audit,
    upgradeOf,
    ending,
    paths,
    notFound,
  });
  app.addHook("preClose", async () => webSockets.close());
  app.addHook("onClose", async () => {
    stalls.close();
    exchanges.close();
    await deps.proxies.close();
  });
  const documented: DocumentedRoute[] = [];
  app.register(async (scope: GatewayApp) =>
    registerOpenApiRoutes(scope, documented, {
      name: deps.brand.name,
      style: propertiesOf(deps.brand),
      logo: logoImage(deps.brand),
    }),
  );
  app.register(async (scope: GatewayApp) => registerPageRoutes(scope, deps));
  for (const prefix of VERSION_PREFIXES) {
    app.register(
      async (scope: GatewayApp) => {
        if (prefix === "") noteRoutes(scope, documented);
        await scope.register(fastifyCookie, { hook: false });
        registerOwnRoutes(scope, { ...deps, proofsOfKeys, recordRepeated, exchanges }, paths);
      },
      { prefix },
    );
  }
  app.register(async (scope: GatewayApp) =>
    registerProxyRoutes(scope, { ...deps, stalls, exchanges, completion, audit, webSockets, upstreamTokens }),
  );
  return app;
}

function createApp(
  deps: GatewayDeps,
  handleError: ReturnType<typeof createErrorHandler>,
  ending: EndingConnections,
): GatewayApp {
  const received: ReceivedRequests = new WeakMap();
  return fastify({
    loggerInstance: deps.logger,
    logController: new LogController({ disableRequestLogging: true, requestIdLogLabel: "requestId" }),
    genReqId: (request) => requestIdOf(request, deps.isTrustedProxy),
    trustProxy: deps.isTrustedProxy,
    rewriteUrl: normalizeRequest,
    bodyLimit: BODY_LIMIT_BYTES,
    // A child logger would only repeat the request id.
    childLoggerFactory: (logger) => logger,
    // While closing, open connections are still served, with `Connection: close`.
    return503OnClosing: false,
    serverFactory: (serve) =>
      createHttpServer(serve, {
        ending,
        received,
        shouldUpgrade: (request) => asksForWebSocket(request, deps.proxies),
        isDraining: () => deps.isDraining(),
      }),
    frameworkErrors: (error, request, reply) => {
      // The request has passed no guard.
      ending.add(request.raw.socket);
      handleError(error, request, reply.header("connection", "close"));
    },
    clientErrorHandler: createClientErrorHandler(received),
  }).withTypeProvider();
}

function registerOwnRoutes(
  app: GatewayApp,
  deps: GatewayDeps & {
    proofsOfKeys: ProofsOfKeys;
    recordRepeated: RecordRepeated;
    exchanges: OpenExchanges;
  },
  paths: KnownPaths,
): void {
  registerJsonParser(app);
  app.addHook("onRequest", async (_request, reply) => {
    reply.header("cache-control", "no-store");
  });
  app.addHook("preValidation", validateRequest);
  const adminDeps = { ...deps, adminPolicy: createAdminPolicy(deps.adminAssurance) };
  registerAuthRoutes(app, deps);
  registerSessionRoutes(app, deps);
  if (deps.deviceBoundSessions) registerDeviceSessionRoutes(app, deps);
  registerMfaRoutes(app, deps);
  registerPasskeyRoutes(app, deps);
  registerApprovalRoutes(app, deps);
  registerStepUpRoutes(app, deps);
  registerReturnRoutes(app, deps);
  registerLinkRoutes(app, { ...deps, portalPath: deps.webPages.find(({ path }) => path === PORTAL)?.path });
  registerAccountRoutes(app, deps);
  registerActivityRoutes(app, deps);
  registerOAuthRoutes(app, deps, paths);
  registerSecurityEventRoutes(app, deps);
  registerIdentityLinkRoutes(app, deps);
  registerAuditRoutes(app, adminDeps);
  registerAuditMonitorRoutes(app, adminDeps);
  registerAuditExportRoutes(app, adminDeps);
  registerSystemRoutes(app, adminDeps);
  registerRoleRoutes(app, adminDeps);
  registerUserAdminRoutes(app, adminDeps);
  registerClientAdminRoutes(app, adminDeps);
  registerWebhookRoutes(app, adminDeps);
  registerTokenRoutes(app, deps);
  registerMetadataRoutes(app, deps);
  registerJwksRoute(app, deps.jwks);
  registerIntrospectionRoutes(app, deps);
  registerSignalRoutes(app, deps);
}
