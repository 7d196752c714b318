import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import * as argon2 from "@node-rs/argon2";
import { vi } from "vitest";
import { parseAccessFile, SHIPPED_ACCESS_FILE } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { type CallContext, newCallContext } from "#kit/rpc/call-context.ts";
import { createLogger, type Logger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { type EncryptionKey, parseEncryptionKey } from "#kit/values/key-cipher.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";
import type { AssuranceLevel } from "#token-client/assurance.ts";
import { register } from "../accounts/register.ts";
import { createApiKeyIds } from "../clients/api-keys.ts";
import { createClientLimits } from "../clients/client-limits.ts";
import { createCountLogin } from "../login/count-logins.ts";
import type { FailedLogin } from "../login/login-deps.ts";
import { createAfterAnswer } from "../mail/after-answer.ts";
import { createLinkTokens } from "../mail/links.ts";
import type { MfaKeys } from "../mfa/totp-secret.ts";
import type { RelyingParties } from "../oauth/begin-oauth-login.ts";
import { createFlowSecrets } from "../oauth/oauth-flow-secrets.ts";
import type { PasskeyParty } from "../passkeys/passkey-config.ts";
import { createHashQueue } from "../passwords/hash-queue.ts";
import { createHashShare } from "../passwords/hash-share.ts";
import { createPasswordHasher } from "../passwords/password-hasher.ts";
import { commonPasswords } from "../passwords/password-policy.ts";
import type { OwnerSession } from "../passwords/prove-owner.ts";
import type { Argon2Parameters } from "../passwords/stored-hash.ts";
import type {
  ClientToken,
  EndedUserSessions,
  NewProof,
  NewSession,
  ProvenClient,
  RaisedAccess,
  SessionTokens,
} from "../sessions/token-service-client.ts";
import { createDeviceTokens } from "../throttle/device-token.ts";
import { MemoryThrottle } from "../throttle/memory-throttle.ts";
import { createNetworkDigests } from "../throttle/network-digests.ts";
import { throttleLimits } from "../throttle/throttle.ts";
import type { NewAccount, Role } from "../users/account.ts";

/** Far below the configured minimum, because tests hash thousands. */
export const QUICK: Argon2Parameters = { memoryKib: 256, iterations: 1, parallelism: 1 };

export function newTestKey(): EncryptionKey {
  const key = parseEncryptionKey(randomBytes(32).toString("base64"));
  if (key === undefined) throw new Error("not an encryption key");
  return key;
}

export async function proveCredentials(ownerSql: Sql, userId: string): Promise<void> {
  await ownerSql`
    update users set email_verified = true, credentials_proven_email = email, credentials_proven_at = created_at
    where id = ${userId}
  `;
}

const COMMON_PASSWORDS = commonPasswords(8);

export const ANNA = {
  email: "anna@example.com",
  password: "Password123!",
  firstName: "Anna",
  lastName: "Smith",
};

/** Anna's address is not verified. */
export async function startWithAnna(
  database: { sql: Sql; ownerSql: Sql },
  registration = ANNA,
): Promise<{ deps: TestDeps; anna: NewAccount; userId: string }> {
  // Other tables are emptied by their foreign keys. A `truncate` takes 50 times as long.
  await database.ownerSql`
    with a as (delete from users), b as (delete from counted_mails), c as (delete from mail_outbox),
      d as (delete from oauth_flows), e as (delete from session_ends), f as (delete from security_events)
    delete from released_addresses
  `;
  const deps = await testDeps(database.sql);
  const anna = await register(deps, registration, soon());
  return { deps, anna, userId: anna.id };
}

/** A session whose user has just proven who they are. */
export const sessionAt = ({ now }: { now: () => Date }, acr: AssuranceLevel = 1): OwnerSession => ({
  acr,
  authTime: now(),
});

export const soon = () => Date.now() + 60_000;

export type TestDeps = Awaited<ReturnType<typeof testDeps>>;

/** The queue is never full. */
function countedPasswords(parameters: Argon2Parameters, logger: Logger) {
  const counted = { hash: vi.fn(argon2.hash), verify: vi.fn(argon2.verify) };
  const queue = createHashQueue({
    concurrency: 2,
    maxWaiting: 1_000,
    maxWaitMs: 60_000,
    now: Date.now,
    metrics: createMetrics("test"),
  });
  const costKey = randomBytes(32);
  return {
    counted,
    passwords: createPasswordHasher({ argon2: counted, parameters, costKey, queue, logger }),
  };
}

function fakeTokenService() {
  return {
    issueSession: vi.fn(async ({ userId }: NewSession): Promise<SessionTokens> => {
      return {
        accessToken: "access",
        refreshToken: "refresh",
        expiresInS: 900,
        refreshExpiresInS: 604_800,
        sessionId: uuidv7(),
        userId,
      };
    }),
    raiseSession: vi.fn(async ({ acr }: NewProof): Promise<RaisedAccess> => {
      return { accessToken: "raised", expiresInS: 900, acr };
    }),
    revokeUserSessions: vi.fn(async (_which: EndedUserSessions): Promise<readonly string[]> => []),
    revokeSession: vi.fn(async () => undefined),
    isSessionLive: vi.fn(async (_which: { sessionId: string; userId: string }) => true),
    issueClientToken: vi.fn(async (_client: ProvenClient): Promise<ClientToken> => {
      return { accessToken: "client access", expiresInS: 900 };
    }),
    revokeClientTokens: vi.fn(async (_ids: readonly string[]): Promise<void> => undefined),
  };
}

/** The clock stands still. */
export async function testDeps(sql: Sql, parameters = QUICK) {
  const logLines: string[] = [];
  const logger = createLogger("test", "info", { write: (line) => void logLines.push(line) });
  const { counted, passwords } = countedPasswords(parameters, logger);
  const now = () => new Date("2031-01-02T03:04:05.678Z");
  const limits = throttleLimits({ network: 10_000, everything: 100_000 });
  return {
    sql,
    passwords,
    throttle: new MemoryThrottle({ limits, now: () => now().getTime() }),
    hashShare: createHashShare({ maxOfNetwork: 1_000, maxOfStrangers: 1_000 }),
    digestNetwork: createNetworkDigests(randomBytes(32)),
    deviceTokens: createDeviceTokens(randomBytes(32), now),
    passwordPolicy: { minLength: 8, common: COMMON_PASSWORDS },
    tokenService: fakeTokenService(),
    apiKeyIds: createApiKeyIds(sql),
    clientLimits: createClientLimits(() => now().getTime()),
    tokenIssuer: "https://gatehouse.example",
    loginRequiresVerifiedEmail: false,
    registrationDiscloses: true,
    smtpUtf8: true,
    access: new AccessTable(parseAccessFile(readFileSync(SHIPPED_ACCESS_FILE, "utf8"))),
    unusedAccountDays: 90,
    linkTokens: createLinkTokens(randomBytes(32), "https://gatehouse.example"),
    providerShare: createHashShare({ maxOfNetwork: 1_000, maxOfStrangers: 1_000 }),
    mailLimits: { strangersPerHour: 5, strangersPerDay: 10, resetsPerDay: 60 },
    relyingParties: new Map() as RelyingParties,
    flowSecrets: createFlowSecrets(randomBytes(32)),
    returnTo: ["https://app.example/signed-in"] as readonly string[],
    isPublicOriginSecure: true,
    afterAnswer: createAfterAnswer({ maxPending: 1_000, logger }),
    now,
    newId: () => uuidv7(),
    countSecurityEvent: vi.fn((_provider: string, _result: string): void => undefined),
    countLogin: createCountLogin(createMetrics("test")),
    noteFailedLogin: vi.fn((_failed: FailedLogin) => undefined),
    notifyOwnerOfGuesses: vi.fn((_account: string): void => undefined),
    wakeMailWorker: vi.fn(),
    randomBytes,
    mfaKeys: [newTestKey()] as MfaKeys,
    mfaIssuer: "Gatehouse",
    mfaRequiredRoles: new Set<Role>(),
    passkeyParty: {
      id: "gatehouse.example",
      name: "Gatehouse",
      origins: ["https://gatehouse.example"],
    } as PasskeyParty,
    mfaChallengeTtlS: 300,
    trustedDeviceDays: 0,
    hashMemoryKib: 19_456,
    logger,
    argon2: counted,
    logLines,
  };
}

/** Of a call with an operator's certificate. */
export function asOperator(): CallContext {
  return { ...newCallContext({ budgetMs: 60_000 }), person: "operator:test" };
}
