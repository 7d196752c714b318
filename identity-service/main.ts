import { randomBytes } from "node:crypto";
import { availableParallelism } from "node:os";
import { AccessTable } from "#access-file/access-rules.ts";
import { createAuditRecorder } from "#audit-client/record/audit-recorder.ts";
import { createReadingRecorder } from "#audit-client/stream/record-reading.ts";
import { loadConfig } from "#kit/config/config.ts";
import { connectPostgres } from "#kit/database/postgres.ts";
import { startProcess } from "#kit/process/service-process.ts";
import { watchDatabase } from "#kit/process/watch-database.ts";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import { callUnary, createRpcClient } from "#kit/rpc/rpc-client.ts";
import type { RpcServer } from "#kit/rpc/rpc-server.ts";
import { untilSuccess } from "#kit/telemetry/repeat.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import { AuditServiceClient } from "#proto/gatehouse/audit/v1/audit_service.ts";
import {
  ClientAdminServiceService,
  ClientServiceService,
} from "#proto/gatehouse/identity/v1/client_service.ts";
import { IdentityServiceService } from "#proto/gatehouse/identity/v1/identity_service.ts";
import { TestLoginServiceService } from "#proto/gatehouse/identity/v1/test_login_service.ts";
import { UserAdminServiceService } from "#proto/gatehouse/identity/v1/user_admin_service.ts";
import { UserImportServiceService } from "#proto/gatehouse/identity/v1/user_import_service.ts";
import { SessionServiceClient } from "#proto/gatehouse/token/v1/session_service.ts";
import { TokenServiceClient } from "#proto/gatehouse/token/v1/token_service.ts";
import { createGuessNotices } from "./accounts/guess-notices.ts";
import { bootstrapAdmin } from "./admin/bootstrap-admin.ts";
import type { SecurityEvent } from "./audit/security-event-store.ts";
import { toAuditEvent } from "./audit/security-event-worker.ts";
import { CLIENT_ADMIN_CALLERS, createClientAdminRpc } from "./client-admin-rpc.ts";
import { CLIENT_CALLERS, createClientRpc } from "./client-rpc.ts";
import { createApiKeyIds } from "./clients/api-keys.ts";
import { createClientLimits } from "./clients/client-limits.ts";
import { configSchema, hashConcurrency } from "./config.ts";
import { createIdentityRpc, IDENTITY_CALLERS } from "./identity-rpc.ts";
import { createCountLogin } from "./login/count-logins.ts";
import { createNoteFailedLogin } from "./login/note-failed-login.ts";
import { createAfterAnswer } from "./mail/after-answer.ts";
import { createLinkTokens } from "./mail/links.ts";
import { mailTemplatesOf } from "./mail/mail-config.ts";
import { LOGO_URL } from "./mail/mail-sender.ts";
import { mailBrandOf } from "./mail/mail-templates.ts";
import { createMailWorker } from "./mail/mail-worker.ts";
import { createFlowSecrets } from "./oauth/oauth-flow-secrets.ts";
import { createCountSecurityEvent } from "./oauth/receive-security-event.ts";
import { passkeyPartyOf } from "./passkeys/passkey-config.ts";
import { countShareRefusals, createHashShare, hashSharesOf } from "./passwords/hash-share.ts";
import { commonPasswords } from "./passwords/password-policy.ts";
import { startLooks, startWorkers } from "./process/background-work.ts";
import { withCheckedIds } from "./process/check-ids.ts";
import {
  followAccessFile,
  openBreachLookups,
  openMailSender,
  openPasswordHasher,
  openRelyingParties,
  openThrottle,
  steadyNow,
} from "./process/open-parts.ts";
import { createTokenServiceClient } from "./sessions/token-service-client.ts";
import { createTestLoginRpc, TEST_LOGIN_CALLERS } from "./test-login-rpc.ts";
import { createDeviceTokens } from "./throttle/device-token.ts";
import { createNetworkDigests } from "./throttle/network-digests.ts";
import { createUserAdminRpc, USER_ADMIN_CALLERS } from "./user-admin-rpc.ts";
import { createUserImportRpc, USER_IMPORT_CALLERS } from "./user-import-rpc.ts";
import { readUsersTable } from "./users/user-store.ts";

const MAX_AFTER_ANSWER = 200;
const MAX_GUESS_NOTICES = 50;
/** Longer than a reconnect of the stream, shorter than the lease of an event. */
const EVENT_RECORD_TIMEOUT_MS = 3_000;
const AUDIT_GRACE_MS = 1_000;

const config = loadConfig(configSchema, process.env);
const service = await startProcess("identity-service", config);
const { logger, metrics, lifecycle, certificate } = service;
const now = () => new Date();

const sql = connectPostgres(config, "identity-service", logger);
lifecycle.onStop("database", () => sql.end({ timeout: 1 }));
lifecycle.addReadinessCheck("database", () => readUsersTable(sql));
const database = watchDatabase({ sql, poolSize: config.DATABASE_POOL_SIZE, metrics, lifecycle, logger });

const tokenService = {
  address: config.TOKEN_SERVICE_ADDRESS,
  service: "token-service",
  certificate,
} as const;
const sessions = createRpcClient(SessionServiceClient, {
  ...tokenService,
  idempotentMethods: ["gatehouse.token.v1.SessionService/ListSessions"],
});
service.run("token-service client", sessions);
const keys = createRpcClient(TokenServiceClient, tokenService);
service.run("client of token-service's keys", keys);
const auditService = { address: config.AUDIT_SERVICE_ADDRESS, certificate };
const recorder = createAuditRecorder({ ...auditService, logger, metrics });
lifecycle.onStop("audit recorder", () => recorder.close(AUDIT_GRACE_MS));
const audit = createRpcClient(AuditServiceClient, { ...auditService, service: "audit-service" });
service.run("audit-service client", audit);

const hashesAtOnce = hashConcurrency(config, availableParallelism());
const passwords = openPasswordHasher(service, config, hashesAtOnce);
const mailSender = openMailSender(service, config);
const pagesOrigin = config.PAGES_ORIGIN ?? config.PUBLIC_ORIGIN;
const linkTokens = createLinkTokens(config.LINK_KEY_FILE.bytes, pagesOrigin);
const mailWorker = service.run(
  "mail worker",
  createMailWorker({
    sql,
    templates: mailTemplatesOf(config),
    brand: mailBrandOf(
      config.BRAND_NAME,
      config.BRAND_COLOR,
      config.SUPPORT_URL,
      config.BRAND_LOGO_FILE && LOGO_URL,
    ),
    linkTokens,
    sender: mailSender,
    now,
    random: Math.random,
    logger,
    metrics,
  }),
);

const afterAnswer = createAfterAnswer({ maxPending: MAX_AFTER_ANSWER, logger });
const guessNotices = createAfterAnswer({ maxPending: MAX_GUESS_NOTICES, logger });
lifecycle.onStop("notices of guesses", () => guessNotices.drained());
lifecycle.onStop("work after answers", () => afterAnswer.drained());

const previousMfaKey = config.MFA_ENCRYPTION_KEY_PREVIOUS_FILE;
const throttle = await openThrottle(service, config);
const relyingParties = openRelyingParties(service, config, pagesOrigin);
const breaches = await openBreachLookups(service, config);
const access = new AccessTable(config.ACCESS_FILE.access);
followAccessFile(service, config, access);
const newId = () => uuidv7();
const record = (event: SecurityEvent) =>
  recorder.recordEvent(toAuditEvent(event), Date.now() + EVENT_RECORD_TIMEOUT_MS);
const eraseClaimedEmail = async (email: string) => {
  await callUnary(audit, audit.eraseClaimedEmail, { email }, newCallContext());
};
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
  returnTo: config.OAUTH_RETURN_TO ?? [],
  isPublicOriginSecure: pagesOrigin.startsWith("https:"),
  afterAnswer,
  now,
  newId,
  noteFailedLogin: createNoteFailedLogin(recorder, { now, newId, metrics }),
  countLogin: createCountLogin(metrics),
  notifyOwnerOfGuesses: createGuessNotices({
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
  mfaIssuer: config.MFA_ISSUER ?? config.BRAND_NAME,
  mfaRequiredRoles: new Set(config.MFA_REQUIRED_ROLES ?? []),
  passkeyParty: passkeyPartyOf(config),
  mfaChallengeTtlS: config.MFA_CHALLENGE_TTL_S,
  trustedDeviceDays: config.TRUSTED_DEVICE_DAYS,
  apiKeyIds: createApiKeyIds(sql),
  clientLimits: createClientLimits(steadyNow),
  countSecurityEvent: createCountSecurityEvent(metrics),
  tokenIssuer: config.PUBLIC_ORIGIN,
  askIssuer: async (context: CallContext) => (await callUnary(keys, keys.getJwks, {}, context)).issuer,
  delivery: { record, eraseClaimedEmail },
  hashMemoryKib: config.ARGON2_MEMORY_KIB,
  logger,
};

startWorkers(service, deps);

const recordReading = createReadingRecorder(recorder, now);
const register = (server: RpcServer) => {
  const clientAdmin = withCheckedIds(createClientAdminRpc(deps, recordReading));
  const userAdmin = withCheckedIds(createUserAdminRpc(deps, recordReading));
  const userImport = withCheckedIds(createUserImportRpc(deps, recordReading));
  server.add(IdentityServiceService, IDENTITY_CALLERS, withCheckedIds(createIdentityRpc(deps)));
  server.add(ClientServiceService, CLIENT_CALLERS, createClientRpc(deps));
  server.add(ClientAdminServiceService, CLIENT_ADMIN_CALLERS, clientAdmin);
  server.add(UserAdminServiceService, USER_ADMIN_CALLERS, userAdmin);
  server.add(UserImportServiceService, USER_IMPORT_CALLERS, userImport);
  if (config.TEST_LOGINS) {
    logger.warn("TEST_LOGINS: operators can log in as any user");
    server.add(TestLoginServiceService, TEST_LOGIN_CALLERS, createTestLoginRpc(deps));
  }
};
await service.serveRpc(config, {
  databases: [sql],
  register,
  assertClock: database.assertClock,
  actorsTakeTurns: true,
  turnFields: ["tempToken", "challengeToken", "token"],
});

const { BOOTSTRAP_ADMIN_EMAIL: email, BOOTSTRAP_ADMIN_PASSWORD_FILE: password } = config;
if (email !== undefined && password !== undefined) {
  await untilSuccess("first administrator", () => bootstrapAdmin(deps, { email, password }), logger);
}
startLooks(service, deps);
lifecycle.ready();
