import { setTimeout as sleep } from "node:timers/promises";
import { createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import { createReadingRecorder } from "#audit-client/stream/record-reading.ts";
import { loadConfig } from "#kit/config/config.ts";
import { assertSessions, connectPostgres } from "#kit/database/postgres.ts";
import { startProcess } from "#kit/process/service-process.ts";
import { type DatabaseWatch, watchDatabases } from "#kit/process/watch-database.ts";
import { redisSettings } from "#kit/redis/redis-settings.ts";
import type { RpcServer } from "#kit/rpc/rpc-server.ts";
import { atMost } from "#kit/telemetry/logger.ts";
import { untilSuccess } from "#kit/telemetry/repeat.ts";
import { boundedCache } from "#kit/values/bounded-cache.ts";
import { createSharedTurns } from "#kit/values/turns.ts";
import { AuthorizationService } from "#proto/envoy/service/auth/v3/external_auth.ts";
import { KeyServiceService } from "#proto/gatehouse/token/v1/key_service.ts";
import { PartServiceService } from "#proto/gatehouse/token/v1/part_service.ts";
import { SecurityEventServiceService } from "#proto/gatehouse/token/v1/security_event_service.ts";
import { SessionServiceService } from "#proto/gatehouse/token/v1/session_service.ts";
import { TokenServiceService } from "#proto/gatehouse/token/v1/token_service.ts";
import { RevocationSet } from "#token-client/revocation-set.ts";
import { slotOfSession } from "#token-client/session-slot.ts";
import { configSchema } from "./config.ts";
import { createEnvoyAuthRpc, envoyCallers } from "./envoy-auth-rpc.ts";
import { measureOutboxes } from "./events/deliver-security-events.ts";
import { createIdentityNoticeClient } from "./events/identity-notice-client.ts";
import { toAuditEvent } from "./events/security-event-audit.ts";
import type { SecurityEvent } from "./events/security-event-store.ts";
import { createKeyRpc, keyCallers } from "./key-rpc.ts";
import { ensureSigningKeys } from "./keys/ensure-signing-keys.ts";
import { describeSigningKeys, KeyRing } from "./keys/key-ring.ts";
import { rotateSigningKeyWhenDue } from "./keys/rotate-signing-key.ts";
import { createPartRpc, partCallers } from "./part-rpc.ts";
import { createSlotSettler } from "./parts/move-slots.ts";
import { openPart } from "./parts/open-part.ts";
import { Parts } from "./parts/parts.ts";
import { partConnection } from "./parts/parts-file.ts";
import { createMemoryBell } from "./revocations/revocation-bell.ts";
import type { VerificationKey } from "./revocations/revocation-store.ts";
import type { SeenLeaf } from "./rows/session-store.ts";
import { createSecurityEventRpc, securityEventCallers } from "./security-event-rpc.ts";
import { createSessionRpc, sessionCallers } from "./session-rpc.ts";
import { cleanUp } from "./sessions/housekeeping.ts";
import { createTokenRpc, tokenCallers } from "./token-rpc.ts";
import { createApiKeyClient } from "./tokens/api-key-client.ts";
import type { VerifiedToken } from "./tokens/verify-token.ts";

const KEY_RELOAD_INTERVAL_MS = 1_000;
const CLEAN_UP_INTERVAL_MS = 60_000;
/** Then the users of the parts that answer are served without the others. */
const PARTS_WAIT_MS = 5_000;
const SETTLE_INTERVAL_MS = 2_000;
const EVENT_RECORD_TIMEOUT_MS = 3_000;
const AUDIT_GRACE_MS = 1_000;
/** Of one session, with different tokens. */
const MAX_WAITING_REFRESHES = 32;
/** All refusals are counted. */
const MAX_REFUSALS_LOGGED_PER_S = 10;

const config = loadConfig(configSchema, process.env);
const service = await startProcess("token-service", config);
const { logger, lifecycle, metrics } = service;
const now = () => new Date();

const sql = connectPostgres(config, "token-service", logger);
lifecycle.onStop("database", () => sql.end({ timeout: 2 }));
const others = (config.PARTS_FILE ?? []).map((part) => {
  const { url, session } = partConnection(config.DATABASE_URL, part);
  const other = connectPostgres({ ...config, DATABASE_URL: url }, "token-service", logger, { session });
  lifecycle.onStop(`database of part ${part.number}`, () => other.end({ timeout: 2 }));
  return { number: part.number, sql: other };
});

const lifetimes = {
  accessTtlS: config.ACCESS_TOKEN_TTL_S,
  refreshIdleTtlS: config.REFRESH_IDLE_TTL_S,
  sessionAbsoluteTtlS: config.SESSION_ABSOLUTE_TTL_S,
  refreshGraceS: config.REFRESH_GRACE_S,
};
const previousKey = config.KEY_ENCRYPTION_KEY_PREVIOUS_FILE;
const keyDeps = {
  sql,
  encryptionKeys: [config.KEY_ENCRYPTION_KEY_FILE, ...(previousKey ? [previousKey] : [])] as const,
  algorithm: config.SIGNING_ALGORITHM,
  accessTtlS: lifetimes.accessTtlS,
  longestTokenS: Math.max(lifetimes.refreshIdleTtlS, lifetimes.accessTtlS) + 60,
  jwksMaxAgeS: config.JWKS_MAX_AGE_S,
  maxAgeS: config.SIGNING_KEY_MAX_AGE_S,
  now,
};
const keys = new KeyRing({ ...keyDeps, logger });
const bell = service.run(
  "revocation bell",
  config.REDIS_URL === undefined
    ? createMemoryBell()
    : new (await import("./revocations/redis-bell.ts")).RedisBell({
        ...redisSettings(config, config.REDIS_URL),
        logger,
        metrics,
      }),
);

const recorder = createAuditRecorder({
  address: config.AUDIT_SERVICE_ADDRESS,
  certificate: service.certificate,
  logger,
  metrics,
});
lifecycle.onStop("audit recorder", () => recorder.close(AUDIT_GRACE_MS));
const recordReading = createReadingRecorder(recorder, now);
const { IDENTITY_SERVICE_ADDRESS: identityService } = config;
const notices = service.run(
  "identity notices",
  createIdentityNoticeClient(identityService, service.certificate),
);
const apiKeys = service.run("API keys", createApiKeyClient(identityService, service.certificate));
const record = (event: SecurityEvent) =>
  recorder.recordEvent(toAuditEvent(event), Date.now() + EVENT_RECORD_TIMEOUT_MS);
const notify = (event: SecurityEvent) => notices.notifyRefreshReuse(event);

const watches = watchDatabases({
  databases: [{ sql }, ...others.map((other) => ({ sql: other.sql, part: other.number }))],
  poolSize: config.DATABASE_POOL_SIZE,
  metrics,
  lifecycle,
  logger,
});
const known = new RevocationSet(Number.POSITIVE_INFINITY);
const shared = {
  service,
  known,
  bell,
  logger,
  accessTtlS: lifetimes.accessTtlS,
  onKeyRevoked: (keyId: string) => keys.ban(keyId),
  record,
  notify,
  now,
  sawElsewhere: sawLeaf,
};
const onKeys = (named: readonly VerificationKey[]) => keys.follow(named.map(({ keyId }) => keyId));
const parts = new Parts(
  [
    openPart({ number: 0, sql, watch: watches[0] as DatabaseWatch }, { ...shared, onKeys }),
    ...others.map((other, index) =>
      openPart(
        { ...other, watch: watches[index + 1] as DatabaseWatch },
        { ...shared, onKeys: () => undefined },
      ),
    ),
  ],
  known,
);
function sawLeaf(leaf: SeenLeaf): void {
  const slot = slotOfSession(leaf.sessionId);
  const holder = parts.holderOf(slot);
  if (holder !== undefined) holder.leaves.saw(leaf);
  // On its way. What is lost after two seconds finds a stolen parent out one rotation later.
  else void parts.at(slot, async ({ leaves }) => leaves.saw(leaf)).catch(() => undefined);
}
const [first, ...further] = parts.all;
measureOutboxes(
  metrics,
  parts.all.map(({ outbox }) => outbox),
);
describeSigningKeys(metrics, { keys, maxAgeS: config.SIGNING_KEY_MAX_AGE_S, now });
const refusals = metrics.counter("gatehouse_token_refusals_total", "Refused access tokens by failed check.", [
  "reason",
]);
const refreshes = metrics.counter("gatehouse_refreshes_total", "Refreshes by result.", ["result"]);
// An alert counts from the first time on.
refreshes.inc({ result: "reused" }, 0);
metrics.gauge(
  "gatehouse_revocation_lag_seconds",
  "Seconds since the last read of the revocation log.",
  ["part"],
  (gauge) => {
    gauge.set(first.revocations.lagMs / 1_000);
    for (const { number, revocations } of further)
      gauge.set({ part: String(number) }, revocations.lagMs / 1_000);
  },
);

const deps = {
  sql,
  issuer: config.TOKEN_ISSUER,
  lifetimes,
  keys,
  parts,
  revocations: parts,
  leaves: { saw: sawLeaf },
  logger,
  now,
  assertClock: first.assertClock,
  verified: boundedCache<string, VerifiedToken>(Math.max(config.VERIFIED_TOKENS_MAX, 1)),
  askForApiKey: apiKeys.ask,
  refreshTurns: createSharedTurns(MAX_WAITING_REFRESHES),
  maxSessionsPerUser: config.MAX_SESSIONS_PER_USER,
  jwksMaxAgeS: config.JWKS_MAX_AGE_S,
  countRefusal: (reason: string) => refusals.inc({ reason }),
  logRefusal: atMost(MAX_REFUSALS_LOGGED_PER_S, 1_000, (facts: object) =>
    logger.info(facts, "access token refused"),
  ),
  onSecurityEvent: first.onSecurityEvent,
  countRefresh: (result: string) => refreshes.inc({ result }),
};

lifecycle.addReadinessCheck("revocation log", () => parts.assertFresh());
const register = (server: RpcServer) => {
  server.add(TokenServiceService, tokenCallers(config.VERIFIERS), createTokenRpc(deps), ["watchRevocations"]);
  server.add(AuthorizationService, envoyCallers(config.ENVOYS ?? []), createEnvoyAuthRpc(deps));
  server.add(SessionServiceService, sessionCallers, createSessionRpc({ ...deps, ...keyDeps }, recordReading));
  server.add(SecurityEventServiceService, securityEventCallers, createSecurityEventRpc(deps));
  server.add(PartServiceService, partCallers, createPartRpc(deps, recordReading));
  server.add(KeyServiceService, keyCallers, createKeyRpc({ ...deps, ...keyDeps }, recordReading));
};
const callerSettings = {
  "gatehouse.token.v1.TokenService": "VERIFIERS",
  "envoy.service.auth.v3.Authorization": "ENVOYS",
};
await service.serveRpc(config, { databases: [sql], register, callerSettings, actorsTakeTurns: true });

await untilSuccess("database clock", () => first.watch.look(), logger);
await untilSuccess("signing keys", () => ensureSigningKeys(keyDeps), logger);
await untilSuccess("signing keys", () => keys.reload(), logger);
await untilSuccess("revocation log", () => first.revocations.start(), logger);
const started = further.map((part) => untilSuccess(`part ${part.number}`, () => startPart(part), logger));
await Promise.race([Promise.all(started), sleep(PARTS_WAIT_MS)]);
if (further.length > 0) service.every(SETTLE_INTERVAL_MS, "slots", createSlotSettler(deps));
service.every(KEY_RELOAD_INTERVAL_MS, "key reload", () => keys.reload());
service.every(CLEAN_UP_INTERVAL_MS, "signing keys", async () => {
  if (await rotateSigningKeyWhenDue(keyDeps)) logger.info("signing key rotated by age");
  await ensureSigningKeys(keyDeps);
});
for (const { sql, assertClock } of parts.all) {
  let sweptTo: string | undefined;
  service.every(CLEAN_UP_INTERVAL_MS, "clean-up", async () => {
    sweptTo = await cleanUp({ sql, assertClock, logger }, sweptTo);
  });
}
lifecycle.ready();

async function startPart({ sql, watch, revocations }: (typeof further)[number]): Promise<void> {
  await assertSessions(sql);
  await watch.look();
  await revocations.start();
}
