import { randomBytes } from "node:crypto";
import { availableParallelism } from "node:os";
import * as argon2 from "@node-rs/argon2";
import { v7 as uuidv7 } from "uuid";
import { AccessTable } from "#access-file/access-rules.ts";
import { watchAccessFile } from "#access-file/watch-access-file.ts";
import { createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import { createReadingRecorder } from "#audit-client/stream/record-reading.ts";
import { loadConfig } from "#kit/config/config.ts";
import { connectPostgres } from "#kit/database/postgres.ts";
import { serveRpc, startProcess } from "#kit/process/service-process.ts";
import { watchDatabase } from "#kit/process/watch-database.ts";
import { redisSettings } from "#kit/redis/redis-connection.ts";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { RpcServer } from "#kit/rpc/rpc-server.ts";
import { repeat, untilSuccess } from "#kit/telemetry/repeat.ts";
import { AuditServiceClient } from "#proto/gatehouse/audit/v1/audit_service.ts";
import {
  ClientAdminServiceService,
  ClientServiceService,
} from "#proto/gatehouse/identity/v1/client_service.ts";
import { IdentityServiceService } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { UserAdminServiceService } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { UserImportServiceService } from "#proto/gatehouse/identity/v1/user_import_service.ts";
import { SessionServiceClient } from "#proto/gatehouse/token/v1/session_service.ts";
import { TokenServiceClient } from "#proto/gatehouse/token/v1/token_service.ts";
import { deleteUnusedAccounts } from "./accounts/delete-unused-accounts.ts";
import { createGuessNotices } from "./accounts/guess-notices.ts";
import { bootstrapAdmin } from "./admin/bootstrap-admin.ts";
import { countUsersOfOtherRoles } from "./admin/user-admin-store.ts";
import { deleteOldApprovals } from "./approvals/delete-old-approvals.ts";
import { toAuditEvent } from "./audit/security-event-audit.ts";
import type { SecurityEvent } from "./audit/security-event-store.ts";
import { createSecurityEventWorker } from "./audit/security-event-worker.ts";
import { withCheckedIds } from "./check-ids.ts";
import { CLIENT_ADMIN_CALLERS, createClientAdminRpc } from "./client-admin-rpc.ts";
import { CLIENT_CALLERS, createClientRpc } from "./client-rpc.ts";
import { createApiKeyIds } from "./clients/api-keys.ts";
import { createIssuerCheck } from "./clients/check-issuer.ts";
import { createClientLimits } from "./clients/client-limits.ts";
import { createClientEndWorker } from "./clients/end-client-tokens.ts";
import { createOwnerlessCount, deleteOldAssertions } from "./clients/managed-clients.ts";
import { assertAccessFits, configSchema, hashConcurrency } from "./config.ts";
import { createIdentityRpc, IDENTITY_CALLERS } from "./identity-rpc.ts";
import { deleteOldImports } from "./imports/list-imported-rows.ts";
import { createCountLogin } from "./login/count-logins.ts";
import { deleteEndedLogins } from "./login/delete-ended-logins.ts";
import { createNoteFailedLogin } from "./login/note-failed-login.ts";
import { createAfterAnswer } from "./mail/after-answer.ts";
import { deleteOldLinks } from "./mail/delete-old-links.ts";
import { createLinkTokens } from "./mail/links.ts";
import { deleteOldMailCounts } from "./mail/mail-budget.ts";
import { createMailSender } from "./mail/mail-sender.ts";
import { createMailWorker } from "./mail/mail-worker.ts";
import { createReencryption } from "./mfa/reencrypt-totp-secrets.ts";
import { deleteExpiredOAuth } from "./oauth/delete-expired-oauth.ts";
import { createFlowSecrets } from "./oauth/oauth-flow-secrets.ts";
import { RelyingPartyTable } from "./oauth/relying-parties.ts";
import { tellPlainHttp, watchProvidersFile } from "./oauth/watch-providers-file.ts";
import { deleteOldChallenges } from "./passkeys/delete-old-challenges.ts";
import { passkeyPartyOf } from "./passkeys/passkey-config.ts";
import { type BreachLookup, createBreachLookup } from "./passwords/breach-lookup.ts";
import { commonPasswords } from "./passwords/common-passwords.ts";
import { createHashQueue } from "./passwords/hash-queue.ts";
import { countShareRefusals, createHashShare, hashSharesOf } from "./passwords/hash-share.ts";
import { createPasswordHasher } from "./passwords/password-hasher.ts";
import { createPepper } from "./passwords/pepper.ts";
import { sampleUsedCosts } from "./passwords/used-cost-store.ts";
import { watchBreachList } from "./passwords/watch-breach-list.ts";
import { createSessionEndWorker } from "./sessions/session-end-worker.ts";
import { createTokenServiceClient } from "./sessions/token-service-client.ts";
import { deleteOldStepUps } from "./step-up/delete-ended-step-ups.ts";
import { createDeviceTokens } from "./throttle/device-token.ts";
import { forgetOldNetworks } from "./throttle/known-network.ts";
import { MemoryThrottle } from "./throttle/memory-throttle.ts";
import { deleteOldWrongCodes } from "./throttle/mfa-tries.ts";
import { createNetworkDigests } from "./throttle/network-digests.ts";
import { RedisThrottle } from "./throttle/redis-throttle.ts";
import { shareOf, throttleLimits } from "./throttle/throttle.ts";
import { createUserAdminRpc, USER_ADMIN_CALLERS } from "./user-admin-rpc.ts";
import { createUserImportRpc, USER_IMPORT_CALLERS } from "./user-import-rpc.ts";
import { readUsersTable } from "./users/user-store.ts";

const MAX_AFTER_ANSWER = 200;
const MAX_GUESS_NOTICES = 50;
/** Longer than a reconnect of the stream, shorter than the lease of an event. */
const EVENT_RECORD_TIMEOUT_MS = 3_000;
const AUDIT_GRACE_MS = 1_000;
const COST_SAMPLING_INTERVAL_MS = 10 * 60_000;
const CLEAN_UP_INTERVAL_MS = 10 * 60_000;
/** A shorter one would make replicas with the old and the new key order re-encrypt in turn. */
const REENCRYPTION_INTERVAL_MS = 15 * 60_000;
const OWNERLESS_COUNT_INTERVAL_MS = 60_000;
const ISSUER_CHECK_INTERVAL_MS = 60_000;
const ROLE_COUNT_INTERVAL_MS = 60_000;
const DISCOVERY_INTERVAL_MS = 10 * 60_000;

const config = loadConfig(configSchema, process.env);
const service = await startProcess("identity-service", config);
const { logger, metrics, lifecycle, certificate } = service;
const now = () => new Date();
/** Milliseconds since the epoch by a clock that never steps: for limits in memory. After the process was suspended it is late. */
const steadyNow = () => performance.timeOrigin + performance.now();

const sql = connectPostgres(config, "identity-service", logger);
lifecycle.onStop("database", () => sql.end({ timeout: 1 }));
lifecycle.addReadinessCheck("database", () => readUsersTable(sql));
const database = watchDatabase({
  sql,
  poolSize: config.DATABASE_POOL_SIZE,
  metrics,
  lifecycle,
  logger,
});

const sessions = createRpcClient(SessionServiceClient, {
  address: config.TOKEN_SERVICE_ADDRESS,
  service: "token-service",
  certificate,
  idempotentMethods: ["gatehouse.token.v1.SessionService/ListSessions"],
});
lifecycle.onStop("token-service client", () => sessions.close());
const keys = createRpcClient(TokenServiceClient, {
  address: config.TOKEN_SERVICE_ADDRESS,
  service: "token-service",
  certificate,
});
lifecycle.onStop("client of token-service's keys", () => keys.close());

const hashesAtOnce = hashConcurrency(config, availableParallelism());
const recorder = createAuditRecorder({
  address: config.AUDIT_SERVICE_ADDRESS,
  certificate,
  logger,
  metrics,
});
lifecycle.onStop("audit recorder", () => recorder.close(AUDIT_GRACE_MS));
const audit = createRpcClient(AuditServiceClient, {
  address: config.AUDIT_SERVICE_ADDRESS,
  service: "audit-service",
  certificate,
});
lifecycle.onStop("audit-service client", () => audit.close());

const passwords = createPasswordHasher({
  argon2,
  parameters: {
    memoryKib: config.ARGON2_MEMORY_KIB,
    iterations: config.ARGON2_ITERATIONS,
    parallelism: config.ARGON2_PARALLELISM,
  },
  pepper: config.PASSWORD_PEPPER_FILE && createPepper(config.PASSWORD_PEPPER_FILE),
  previousPepper: config.PASSWORD_PEPPER_PREVIOUS_FILE && createPepper(config.PASSWORD_PEPPER_PREVIOUS_FILE),
  costKey: config.DEVICE_KEY_FILE.bytes,
  queue: createHashQueue({
    concurrency: hashesAtOnce,
    maxWaiting: config.HASH_QUEUE_MAX,
    maxWaitMs: config.HASH_QUEUE_WAIT_MS,
    now: Date.now,
    metrics,
  }),
  logger,
});

const { SMTP_URL: smtpServer, MAIL_FROM: mailFrom } = config;
const mailSender =
  smtpServer &&
  mailFrom &&
  createMailSender({
    server: smtpServer,
    password: config.SMTP_PASSWORD_FILE,
    requireTls: config.SMTP_REQUIRE_TLS,
    caFile: config.SMTP_CA_FILE,
    from: mailFrom,
  });
if (mailSender === undefined) logger.warn("SMTP_URL is not set: no mail is sent, mails wait in the outbox");
else lifecycle.onStop("mail sender", () => mailSender.close());

const pagesOrigin = config.PAGES_ORIGIN ?? config.PUBLIC_ORIGIN;
const linkTokens = createLinkTokens(config.LINK_KEY_FILE.bytes, pagesOrigin);
const mailWorker = createMailWorker({
  sql,
  templates: config.MAIL_TEMPLATES_DIR,
  linkTokens,
  sender: mailSender,
  now,
  random: Math.random,
  logger,
  metrics,
});
mailWorker.start();
lifecycle.onStop("mail worker", () => mailWorker.stop());

const afterAnswer = createAfterAnswer({ maxPending: MAX_AFTER_ANSWER, logger });
const guessNotices = createAfterAnswer({ maxPending: MAX_GUESS_NOTICES, logger });
lifecycle.onStop("notices of guesses", () => guessNotices.drained());
lifecycle.onStop("work after answers", () => afterAnswer.drained());

const previousMfaKey = config.MFA_ENCRYPTION_KEY_PREVIOUS_FILE;
const limits = throttleLimits({
  network: config.THROTTLE_NETWORK_BUDGET,
  everything: config.THROTTLE_GLOBAL_BUDGET,
  callsOfNetwork: config.THROTTLE_CALL_NETWORK_BUDGET,
  calls: config.THROTTLE_CALL_GLOBAL_BUDGET,
  logins: config.THROTTLE_LOGIN_BUDGET,
});
const { REDIS_URL: redisUrl, THROTTLE_REPLICAS: replicas } = config;
const throttle =
  redisUrl === undefined
    ? new MemoryThrottle({ limits: shareOf(limits, replicas), now: steadyNow })
    : new RedisThrottle({
        ...redisSettings(config, redisUrl),
        limits,
        secret: config.DEVICE_KEY_FILE.bytes,
        replicas,
        now: Date.now,
        localNow: steadyNow,
        logger,
        metrics,
      });
lifecycle.onStop("throttle", () => throttle.close());

const { OAUTH_PROVIDERS_FILE: providersFile, OAUTH_RETURN_TO: returnTo = [] } = config;
const relyingParties = new RelyingPartyTable(providersFile?.providers ?? [], {
  publicOrigin: pagesOrigin,
  nowMs: Date.now,
  logger,
});
lifecycle.onStop("identity providers", () => relyingParties.close());
// Not awaited: an absent provider must not delay the start.
const discovery = repeat("discovery", DISCOVERY_INTERVAL_MS, () => relyingParties.refreshAll(), logger);
lifecycle.onStop("discovery", () => discovery.stop());
if (providersFile !== undefined) {
  tellPlainHttp(providersFile.providers, logger);
  const providersWatch = watchProvidersFile({
    file: providersFile,
    table: relyingParties,
    publicOrigin: pagesOrigin,
    returnTo,
    logger,
    metrics,
  });
  process.on("SIGHUP", () => providersWatch.runSoon());
  lifecycle.onStop("providers file", () => providersWatch.stop());
}

const { BREACH_LIST_FILE: breachListFile, BREACH_LOOKUP_URL: breachLookupUrl } = config;
const breaches: BreachLookup[] = [];
if (breachListFile !== undefined) {
  const maxAgeDays = config.BREACH_LIST_MAX_AGE_DAYS;
  const list = await watchBreachList({ path: breachListFile, maxAgeDays, now, logger, metrics });
  lifecycle.onStop("breach list", () => list.close());
  breaches.push(list);
}
// After the list, which is nearer.
if (breachLookupUrl !== undefined)
  breaches.push(createBreachLookup({ url: breachLookupUrl, logger, metrics }));
const access = new AccessTable(config.ACCESS_FILE.access);
const accessWatch = watchAccessFile({
  ...config.ACCESS_FILE,
  table: access,
  assertFits: (changed) => assertAccessFits(config, changed),
  logger,
  metrics,
});
process.on("SIGHUP", () => accessWatch.runSoon());
lifecycle.onStop("access file", () => accessWatch.stop());
const newId = () => uuidv7();
const deps = {
  sql,
  passwords,
  throttle,
  hashShare: createHashShare({
    ...hashSharesOf(hashesAtOnce + config.HASH_QUEUE_MAX),
    onRefusal: countShareRefusals(metrics),
  }),
  digestNetwork: createNetworkDigests(config.DEVICE_KEY_FILE.bytes),
  deviceTokens: createDeviceTokens(config.DEVICE_KEY_FILE.bytes, now),
  passwordPolicy: {
    minLength: config.PASSWORD_MIN_LENGTH,
    common: commonPasswords(config.PASSWORD_MIN_LENGTH),
    breaches,
  },
  tokenService: createTokenServiceClient(sessions),
  loginRequiresVerifiedEmail: config.LOGIN_REQUIRES_VERIFIED_EMAIL,
  registrationDiscloses: config.REGISTRATION_DISCLOSES,
  smtpUtf8: config.SMTP_UTF8,
  // So that one network cannot take all of a provider's connections.
  providerShare: createHashShare({ maxOfNetwork: 8, maxOfStrangers: Number.POSITIVE_INFINITY }),
  access,
  unusedAccountDays: config.UNUSED_ACCOUNT_DAYS,
  approvalRetentionMonths: config.APPROVAL_RETENTION_MONTHS,
  linkTokens,
  mailLimits: {
    strangersPerHour: config.MAIL_STRANGERS_HOURLY_MAX,
    strangersPerDay: config.MAIL_STRANGERS_DAILY_MAX,
    resetsPerDay: config.MAIL_RESET_DAILY_MAX,
  },
  relyingParties,
  flowSecrets: createFlowSecrets(config.LINK_KEY_FILE.bytes),
  returnTo,
  isPublicOriginSecure: pagesOrigin.startsWith("https:"),
  afterAnswer,
  now,
  newId,
  noteFailedLogin: createNoteFailedLogin(recorder, { now, newId, metrics }),
  countLogin: createCountLogin(metrics),
  tellOwnerOfGuesses: createGuessNotices({
    sql,
    linkTokens,
    now,
    newId,
    afterAnswer: guessNotices,
    wakeMailWorker: () => mailWorker.wake(),
  }),
  wakeMailWorker: () => mailWorker.wake(),
  randomBytes: (count: number) => randomBytes(count),
  mfaKeys: [config.MFA_ENCRYPTION_KEY_FILE, ...(previousMfaKey ? [previousMfaKey] : [])] as const,
  mfaIssuer: config.MFA_ISSUER,
  mfaRequiredRoles: new Set(config.MFA_REQUIRED_ROLES ?? []),
  passkeyParty: passkeyPartyOf(config),
  mfaChallengeTtlS: config.MFA_CHALLENGE_TTL_S,
  trustedDeviceDays: config.TRUSTED_DEVICE_DAYS,
  apiKeyIds: createApiKeyIds(sql),
  clientLimits: createClientLimits(steadyNow),
  tokenIssuer: config.PUBLIC_ORIGIN,
  hashMemoryKib: config.ARGON2_MEMORY_KIB,
  logger,
};

const sessionEndWorker = createSessionEndWorker(deps, metrics);
sessionEndWorker.start();
lifecycle.onStop("session ends", () => sessionEndWorker.stop());
const clientEndWorker = createClientEndWorker(deps, metrics);
clientEndWorker.start();
lifecycle.onStop("client ends", () => clientEndWorker.stop());
const ownerlessCount = repeat(
  "clients without an owner",
  OWNERLESS_COUNT_INTERVAL_MS,
  createOwnerlessCount(deps, metrics),
  logger,
);
ownerlessCount.runSoon();
lifecycle.onStop("clients without an owner", () => ownerlessCount.stop());
const askIssuer = async (context: CallContext) => (await callUnary(keys, keys.getJwks, {}, context)).issuer;
const issuerCheck = repeat(
  "the issuer of tokens",
  ISSUER_CHECK_INTERVAL_MS,
  createIssuerCheck({ askIssuer, tokenIssuer: config.PUBLIC_ORIGIN }, logger),
  logger,
);
issuerCheck.runSoon();
lifecycle.onStop("the issuer of tokens", () => issuerCheck.stop());
const record = (event: SecurityEvent) =>
  recorder.recordEvent(toAuditEvent(event), Date.now() + EVENT_RECORD_TIMEOUT_MS);
const eraseClaimedEmail = async (email: string) => {
  await callUnary(audit, audit.eraseClaimedEmail, { email }, newCallContext());
};
const securityEventWorker = createSecurityEventWorker(
  { sql, record, eraseClaimedEmail, now, logger },
  metrics,
);
securityEventWorker.start();
lifecycle.onStop("security events", () => securityEventWorker.stop());
const cleanUps = {
  links: () => deleteOldLinks(deps),
  "ended logins": () => deleteEndedLogins(deps),
  approvals: () => deleteOldApprovals(deps),
  "step-ups": () => deleteOldStepUps(deps),
  "wrong codes": () => deleteOldWrongCodes(deps),
  networks: () => forgetOldNetworks(deps),
  "mail counts": () => deleteOldMailCounts(deps),
  "unused accounts": () => deleteUnusedAccounts(deps),
  flows: () => deleteExpiredOAuth(deps),
  "client assertions": () => deleteOldAssertions(deps),
  "passkey challenges": () => deleteOldChallenges(deps),
  imports: () => deleteOldImports(deps),
};
for (const [what, cleanUp] of Object.entries(cleanUps)) {
  lifecycle.onStop(`clean-up of ${what}`, repeat(what, CLEAN_UP_INTERVAL_MS, cleanUp, logger).stop);
}
const costSampling = repeat(
  "costs of stored hashes",
  COST_SAMPLING_INTERVAL_MS,
  async () => passwords.useCosts(await sampleUsedCosts(sql)),
  logger,
);
costSampling.runSoon();
lifecycle.onStop("cost sampling", () => costSampling.stop());

const register = (server: RpcServer) => {
  server.add(IdentityServiceService, IDENTITY_CALLERS, withCheckedIds(createIdentityRpc(deps)));
  server.add(ClientServiceService, CLIENT_CALLERS, createClientRpc(deps));
  server.add(
    ClientAdminServiceService,
    CLIENT_ADMIN_CALLERS,
    withCheckedIds(createClientAdminRpc(deps, createReadingRecorder(recorder, now))),
  );
  server.add(
    UserAdminServiceService,
    USER_ADMIN_CALLERS,
    withCheckedIds(createUserAdminRpc(deps, createReadingRecorder(recorder, now))),
  );
  server.add(
    UserImportServiceService,
    USER_IMPORT_CALLERS,
    withCheckedIds(createUserImportRpc(deps, createReadingRecorder(recorder, now))),
  );
};
await serveRpc(service, config, [sql], register, {
  assertClock: database.assertClock,
  actorsTakeTurns: true,
  turnFields: ["tempToken", "challengeToken", "token"],
});

const { BOOTSTRAP_ADMIN_EMAIL: email, BOOTSTRAP_ADMIN_PASSWORD_FILE: password } = config;
if (email !== undefined && password !== undefined) {
  await untilSuccess("first administrator", () => bootstrapAdmin(deps, { email, password }), logger);
}
lifecycle.ready();
const withoutRole = metrics.gauge(
  "gatehouse_users_without_defined_role",
  "Users whose role is not in the access file. They may do nothing.",
);
const roleCount = repeat(
  "users without a defined role",
  ROLE_COUNT_INTERVAL_MS,
  async () => withoutRole.set(await countUsersOfOtherRoles(sql, access.roles)),
  logger,
);
lifecycle.onStop("users without a defined role", () => roleCount.stop());
roleCount.runSoon();
const reencryption = repeat(
  "re-encryption of TOTP secrets",
  REENCRYPTION_INTERVAL_MS,
  createReencryption(deps, metrics),
  logger,
);
lifecycle.onStop("TOTP secrets", () => reencryption.stop());
reencryption.runSoon();
