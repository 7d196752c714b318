import { setTimeout as sleep } from "node:timers/promises";
import { AccessTable } from "#access-file/access-rules.ts";
import { watchAccessFile } from "#access-file/watch-access-file.ts";
import { createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import { openConfiguredSpool } from "#audit-client/spool/audit-spool.ts";
import { loadConfig, splitAddress } from "#kit/config/config.ts";
import { oncePassed } from "#kit/process/lifecycle.ts";
import { startProcess } from "#kit/process/service-process.ts";
import { redisSettings } from "#kit/redis/redis-settings.ts";
import { bufferedOutput } from "#kit/telemetry/logger.ts";
import { TokenVerifier } from "#token-client/token-verifier.ts";
import { buildApp } from "./app.ts";
import { openBackends } from "./backends/backends.ts";
import { configSchema } from "./config.ts";
import { createNoteReading } from "./edge/audit.ts";
import { limitConnections } from "./edge/connection-limit.ts";
import { DpopProofs } from "./edge/proofs/dpop-proof.ts";
import { UsedProofs } from "./edge/proofs/used-proofs.ts";
import { trustedProxies } from "./edge/request/trusted-proxies.ts";
import { createMemoryLimiter, createRedisLimiter } from "./limits/call-limiter.ts";
import { defaultLimitClasses } from "./limits/limit-class.ts";
import { ReconciledLimiter } from "./limits/reconciled-limiter.ts";
import { StrangerPlaces } from "./limits/share-counts.ts";
import { colorsOf, declarationsOf } from "./pages/brand-style.ts";
import { checkNames, hintAtOrigins } from "./routing/check-names.ts";
import { ProxyTable } from "./routing/proxy-table.ts";
import { watchRoutesFile } from "./routing/watch-routes-file.ts";
import { createJwksCache } from "./services/jwks-cache.ts";

/** Reserved after the audit recorder, which gets all other time, because its spool may have no other sender. */
const CLOSE_RESERVE_MS = 1_000;

const config = loadConfig(configSchema, process.env);
const { logger, metrics, lifecycle, certificate } = await startProcess("gateway", config, {
  traceOrigin: "edge",
  logOutput: bufferedOutput(),
});
const { IDENTITY_SERVICE_ADDRESS, TOKEN_SERVICE_ADDRESS, AUDIT_SERVICE_ADDRESS, EVENT_SERVICE_ADDRESS } =
  config;

// Started first and stopped last: it records the other parts' requests.
const spool = await openConfiguredSpool(config, logger, metrics);
const recorder = createAuditRecorder({
  address: AUDIT_SERVICE_ADDRESS,
  certificate,
  logs: config.AUDIT_LOGS,
  spool,
  logger,
  metrics,
});
lifecycle.onStop("audit recorder", () => recorder.close(lifecycle.remainingStopMs - CLOSE_RESERVE_MS));
// A replica's own spool. Without one, calls report an unavailable audit-service.
if (spool !== undefined) lifecycle.addReadinessCheck("audit spool", () => recorder.assertReady());
const { backends, close: closeBackends } = openBackends(
  {
    identity: IDENTITY_SERVICE_ADDRESS,
    token: TOKEN_SERVICE_ADDRESS,
    audit: AUDIT_SERVICE_ADDRESS,
    event: EVENT_SERVICE_ADDRESS,
  },
  certificate,
);
const jwks = createJwksCache(
  async (context) => {
    const { jwksJson, maxAgeS } = await backends.tokens.getJwks({}, context);
    return { json: jwksJson, maxAgeS };
  },
  () => performance.now(),
);
const verifier = new TokenVerifier({
  address: TOKEN_SERVICE_ADDRESS,
  certificate,
  logger,
  metrics,
  maxCachedTokens: config.VERIFIED_TOKENS_MAX,
  boundTokens: "checked",
  onKeyBanned: (keyId) => jwks.refuseKey(keyId),
  onKeys: (keyIds) => jwks.expectKeys(keyIds),
});
lifecycle.onStop("token verifier", () => verifier.close());
lifecycle.addReadinessCheck(
  "revocations",
  oncePassed(() => verifier.assertReady()),
);
lifecycle.onStop("service clients", closeBackends);

if (config.OAUTH_TOKEN_DELIVERY === "query") {
  logger.warn("OAUTH_TOKEN_DELIVERY=query is unsafe: tokens appear in server logs and browser histories");
}
const { REDIS_URL: redisUrl, RATE_LIMIT_REPLICAS: replicas } = config;
const redis =
  redisUrl === undefined
    ? undefined
    : (await import("#kit/redis/shared-redis.ts")).openSharedRedis({
        ...redisSettings(config, redisUrl),
        name: "gatehouse-limits",
        what: "calls are limited",
        logger,
      });
if (redis !== undefined) {
  metrics.gauge(
    "gatehouse_rate_limits_shared",
    "1 while all gateways share their rate limits.",
    [],
    (gauge) => gauge.set(redis.isConnected ? 1 : 0),
  );
}
const now = () => performance.now();
const proxyLimiter = new ReconciledLimiter({ redis, replicas });
lifecycle.onStop("rate limits", () => {
  proxyLimiter.close();
  redis?.close();
});
const proxies = new ProxyTable(config.ROUTES_FILE.routes, metrics);
const access = new AccessTable(config.ACCESS_FILE.access);
const checked = checkNames(config.ROUTES_FILE.routes, { proxies, access, logger });
hintAtOrigins(config.ALLOWED_ORIGINS ?? new Set(), config.ROUTES_FILE.routes, logger);
const accessWatch = watchAccessFile({
  ...config.ACCESS_FILE,
  table: checked.access,
  assertFits: undefined,
  logger,
  metrics,
});
lifecycle.onStop("access file", () => accessWatch.stop());
const isTrustedProxy = trustedProxies(config.TRUSTED_PROXIES);
const routesWatch = watchRoutesFile({
  ...config.ROUTES_FILE,
  hosts: config.ALLOWED_HOSTS,
  proxies: checked.proxies,
  logger,
  metrics,
});
process.on("SIGHUP", () => {
  routesWatch.runSoon();
  accessWatch.runSoon();
});
lifecycle.onStop("routes file", () => routesWatch.stop());
const colors = colorsOf(config.BRAND_COLOR, config.BRAND_STYLE_FILE);
const app = buildApp({
  ...backends,
  redis,
  dpopProofs: new DpopProofs(() => Date.now()),
  usedProofs: new UsedProofs({ redis, nowMs: now, wallMs: () => Date.now() }),
  bindsToCertificates: config.CERTIFICATE_BOUND_TOKENS,
  deviceBoundSessions: config.DEVICE_BOUND_SESSIONS,
  tokenDelivery: config.OAUTH_TOKEN_DELIVERY,
  jwks,
  tokenIssuer: () => verifier.issuer(),
  isKeyBanned: (keyId) => verifier.isKeyBanned(keyId),
  maxUpstreamTokens: config.VERIFIED_TOKENS_MAX,
  verifier,
  access,
  nextRecorder: recorder.next,
  noteReading: createNoteReading(recorder, () => new Date()),
  proxies,
  adminAssurance: config.ADMIN_ASSURANCE,
  introspectionClients: config.INTROSPECTION_CLIENTS_FILE,
  allowedHosts: config.ALLOWED_HOSTS,
  allowedOrigins: config.ALLOWED_ORIGINS ?? new Set(),
  callBudgetMs: config.CALL_BUDGET_MS,
  maxWebSockets: config.MAX_WEBSOCKETS,
  isDraining: () => lifecycle.isDraining,
  webPages: config.WEB,
  publicOrigin: config.PUBLIC_ORIGIN,
  pagesOrigin: config.PAGES_ORIGIN,
  indexLinks: config.WEB_LINKS ?? [],
  brand: {
    name: config.BRAND_NAME,
    style: declarationsOf(colors, config.BRAND_STYLE_FILE?.others),
    paper: colors.paper,
    logo: config.BRAND_LOGO_FILE,
    support: config.SUPPORT_URL,
    privacy: config.PRIVACY_URL,
    terms: config.TERMS_URL,
    mailbox: config.WEB_LINKS?.find(({ name }) => name === "Mailbox")?.url,
  },
  pageLanguages: config.PAGE_LANGUAGES_DIR,
  returnTargets: config.PORTAL_RETURN_TO ?? [],
  limitClasses: config.RATE_LIMITS ?? defaultLimitClasses(),
  strangerPlaces: new StrangerPlaces(config.STRANGER_LOGINS_AT_ONCE),
  callLimiter:
    redis === undefined
      ? createMemoryLimiter({ replicas, now })
      : createRedisLimiter(redis, { replicas, now }),
  proxyLimiter,
  isTrustedProxy,
  logger,
  metrics,
});
limitConnections(
  app.server,
  { total: config.MAX_CONNECTIONS, perAddress: config.MAX_CONNECTIONS_PER_ADDRESS },
  isTrustedProxy,
);
metrics.gauge("gatehouse_http_connections", "Open connections of clients.", [], (gauge) => {
  app.server.getConnections((error, count) => error === null && gauge.set(count));
});
await app.listen(splitAddress(config.LISTEN_ADDRESS));
lifecycle.onStop("HTTP server", async () => {
  // Open requests may end within the grace period.
  const cut = new AbortController();
  const cutOff = sleep(config.SHUTDOWN_GRACE_MS, undefined, { signal: cut.signal, ref: false }).then(
    () => app.server.closeAllConnections(),
    () => undefined,
  );
  await app.close();
  cut.abort();
  await cutOff;
});
lifecycle.ready();
