import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import * as argon2 from "@node-rs/argon2";
import { parseAccessFile, SHIPPED_ACCESS_FILE } from "#access-file/access-file.ts";
import { AccessTable } from "#access-file/access-rules.ts";
import { createCountLogin } from "#identity-service/login/count-logins.ts";
import { createLinkTokens } from "#identity-service/mail/links.ts";
import { createHashQueue } from "#identity-service/passwords/hash-queue.ts";
import { createHashShare } from "#identity-service/passwords/hash-share.ts";
import { createPasswordHasher } from "#identity-service/passwords/password-hasher.ts";
import { commonPasswords } from "#identity-service/passwords/password-policy.ts";
import type { NewProof } from "#identity-service/sessions/token-service-client.ts";
import { createDeviceTokens } from "#identity-service/throttle/device-token.ts";
import { MemoryThrottle } from "#identity-service/throttle/memory-throttle.ts";
import { createNetworkDigests } from "#identity-service/throttle/network-digests.ts";
import { throttleLimits } from "#identity-service/throttle/throttle.ts";
import type { Sql } from "#kit/database/postgres.ts";
import { createLogger } from "#kit/telemetry/logger.ts";
import { createMetrics } from "#kit/telemetry/metrics.ts";
import { parseEncryptionKey } from "#kit/values/key-cipher.ts";
import { uuidv7 } from "#kit/values/uuid-v7.ts";

export const FLOOR = { memoryKib: 19_456, iterations: 2, parallelism: 1 };

/** What a login needs, at the parameters' floor, with a token-service that costs nothing and limits that nobody reaches. */
export async function identityDeps(sql: Sql, concurrency: number) {
  const logger = createLogger("bench", "fatal");
  const metrics = createMetrics("bench");
  const queue = createHashQueue({
    concurrency,
    maxWaiting: 1_000,
    maxWaitMs: 60_000,
    now: Date.now,
    metrics,
  });
  const now = () => new Date();
  const limits = throttleLimits({
    network: 1_000_000,
    everything: 100_000_000,
    callsOfNetwork: 1_000_000,
    calls: 100_000_000,
    logins: 1_000_000,
  });
  const key = parseEncryptionKey(randomBytes(32).toString("base64"));
  if (key === undefined) throw new Error("not an encryption key");
  const tokens = {
    accessToken: "access",
    refreshToken: "refresh",
    expiresInS: 900,
    refreshExpiresInS: 604_800,
  };
  return {
    sql,
    passwords: createPasswordHasher({ argon2, parameters: FLOOR, costKey: randomBytes(32), queue, logger }),
    throttle: new MemoryThrottle({ limits, now: Date.now }),
    hashShare: createHashShare({ maxOfNetwork: 1_000, maxOfStrangers: 1_000 }),
    deviceTokens: createDeviceTokens(randomBytes(32), now),
    digestNetwork: createNetworkDigests(randomBytes(32)),
    countLogin: createCountLogin(metrics),
    noteFailedLogin: () => undefined,
    notifyOwnerOfGuesses: () => undefined,
    tokenService: {
      issueSession: async ({ userId }: { userId: string }) => ({ ...tokens, sessionId: uuidv7(), userId }),
      raiseSession: async ({ acr }: NewProof) => ({ accessToken: "access", expiresInS: 900, acr }),
      revokeSession: async () => undefined,
      isSessionLive: async () => true,
      issueClientToken: async () => ({ accessToken: "access", expiresInS: 900 }),
      revokeClientTokens: async () => undefined,
      revokeUserSessions: async () => [],
    },
    loginRequiresVerifiedEmail: false,
    registrationDiscloses: true,
    unusedAccountDays: 0,
    passwordPolicy: { minLength: 8, common: commonPasswords(8) },
    mfaKeys: [key] as const,
    mfaRequiredRoles: new Set<never>(),
    passkeyParty: { id: "gatehouse.example", name: "Gatehouse", origins: ["https://gatehouse.example"] },
    trustedDeviceDays: 0,
    linkTokens: createLinkTokens(randomBytes(32), "https://gatehouse.example"),
    access: new AccessTable(parseAccessFile(readFileSync(SHIPPED_ACCESS_FILE, "utf8"))),
    mfaChallengeTtlS: 300,
    mfaIssuer: "Gatehouse",
    randomBytes,
    now,
    newId: () => uuidv7(),
    wakeMailWorker: () => undefined,
    logger,
  };
}

/** Makes accounts, with one hash for all. */
export async function plantUsers(
  sql: Sql,
  users: readonly { email: string; status: string }[],
  passwordHash: string,
): Promise<void> {
  const rows = users.map(({ email, status }) => ({
    id: uuidv7(),
    email,
    first_name: "Ada",
    last_name: "Lovelace",
    role: "USER",
    status,
    password_hash: passwordHash,
    email_verified: true,
    created_at: new Date(),
    updated_at: new Date(),
  }));
  await sql`insert into users ${sql(rows)}`;
}
